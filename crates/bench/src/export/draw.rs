//! Charts as HTML and inline SVG.
//!
//! Bars are boxes of the page and lines a drawing without text, so that letters keep their size when the
//! page is made narrow, and colours are those of the page, light or dark. Libraries of charts fix both.

use std::fmt::Write;

use super::chart::{Bar, Chart, ChartLine, Marker, Shape};
use super::html::escaped;
use super::{decimals, treemap};
use crate::stats::Interval;

/// How charts look.
pub(super) const STYLE: &str = "
figure{margin:0 0 1.2rem}
figcaption{color:var(--quiet);font-size:.85rem;margin-top:.4rem}
.plot{position:relative;--name:17rem;--end:5.5rem;padding:.2rem 0 1.6rem;font-size:.9rem}
.grid{position:absolute;inset:0 var(--end) 0 var(--name);pointer-events:none}
.grid i{position:absolute;top:0;bottom:1.5rem;width:0;border-left:1px solid var(--rule)}
.grid i.limit{border-left:2px dashed;z-index:1}
.grid b{position:absolute;bottom:0;transform:translateX(-50%);font-weight:400;font-size:.8rem;color:var(--quiet);
font-variant-numeric:tabular-nums}
.grid em{position:absolute;bottom:0;left:100%;margin-left:.9rem;font-style:normal;font-size:.8rem;color:var(--quiet);white-space:nowrap}
.row{position:relative;display:flex;align-items:center;min-height:1.75rem;padding:.2rem 0}
.row>span{flex:0 0 var(--name);padding-right:.8rem;text-align:right;line-height:1.2;overflow-wrap:anywhere}
.row>div{position:relative;flex:1;margin-right:var(--end);height:1.05rem}
.fill{position:absolute;inset:0 auto 0 0;background:var(--bar);border-radius:0 .15rem .15rem 0}
.control .fill{background:var(--control)}
.control>span{color:var(--quiet)}
.whisker{position:absolute;top:calc(50% - 1px);height:2px;background:var(--ink);min-width:1px}
.whisker:before,.whisker:after{content:'';position:absolute;top:-3px;height:8px;width:2px;background:var(--ink)}
.whisker:before{left:-1px}.whisker:after{right:-1px}
.value{position:absolute;left:100%;top:50%;transform:translateY(-50%);margin-left:.45rem;line-height:1.1;white-space:nowrap;
background:var(--page);border-radius:.2rem;
font-variant-numeric:tabular-nums;z-index:2}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.85rem;color:var(--quiet);margin:.2rem 0 0}
.key{width:2.2rem;height:.25rem;margin-right:.4rem;vertical-align:middle}
.key path{stroke-width:4}
.legend i{display:inline-block;width:1.2rem;margin-right:.4rem;vertical-align:middle;border-top:3px solid}
.legend i.dash{border-top:2px dashed}
.legend i.pale{height:.7rem;border:0;background:var(--control)}
.lines{position:relative;height:19rem;margin:.6rem 1rem 2.8rem 4rem}
.lines svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.lines path{fill:none;stroke-width:2.5;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.lines path.band{stroke:none;fill-opacity:.16}
.lines u{position:absolute;text-decoration:none;color:var(--quiet);font-size:.8rem;font-variant-numeric:tabular-nums}
.lines u.y{right:calc(100% + .5rem);transform:translateY(-50%);white-space:nowrap}
.lines u.x{top:calc(100% + .35rem);transform:translateX(-50%)}
.lines u.axis{top:calc(100% + 1.5rem);left:0;right:0;text-align:center}
.lines s{position:absolute;border-top:1px solid var(--rule);left:0;right:0;height:0}
.lines s.limit{border-top:2px dashed}
.lines em{position:absolute;width:.5rem;height:.5rem;margin:-.25rem;border-radius:50%}
@media(max-width:44rem){.plot{--name:0px;--end:4.5rem}.row{display:block;padding-top:.5rem}

.row>span{display:table;text-align:left;position:relative;z-index:2;background:var(--page)}.lines{margin-left:3.4rem}}
";

/// The names of what is marked in charts of a page, which have the same colour in all of them.
pub(super) fn limits(charts: &[Chart]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for marker in charts.iter().flat_map(|chart| &chart.markers) {
        if !names.contains(&marker.name.as_str()) {
            names.push(&marker.name);
        }
    }
    names
}

/// A figure, below a heading that is its title.
pub(super) fn chart(chart: &Chart, limits: &[&str]) -> String {
    let drawn = match &chart.shape {
        Shape::Bars(bars) => self::bars(chart, bars, limits),
        Shape::Lines { axis, logarithmic, lines } => self::lines(chart, (axis, *logarithmic), lines, limits),
        Shape::Tiles { levels, tiles } => treemap::treemap(tiles, levels),
    };
    let scale = if chart.logarithmic { ", equal steps are equal factors" } else { "" };
    let intervals = match chart.ranges {
        true if is_exact(chart) => "; one run each, which has no interval",
        _ if is_exact(chart) => "",
        true => "; with the range of the runs, which are too few for an interval",
        false => "; with 95% intervals",
    };
    // The axis of bars has the unit.
    let unit = match chart.shape {
        Shape::Bars(_) => String::new(),
        _ => escaped(&chart.unit),
    };
    let caption = format!("{unit}{scale}{intervals}");
    let caption = match caption.trim_start_matches([',', ';', ' ']) {
        "" => String::new(),
        caption => format!("<figcaption>{caption}</figcaption>"),
    };
    format!("<figure aria-label=\"{}\">{drawn}{caption}</figure>\n", escaped(&chart.title))
}

/// Whether nothing in it was measured with an error.
fn is_exact(chart: &Chart) -> bool {
    let exact = |value: &Interval| value.low == value.high;
    match &chart.shape {
        Shape::Bars(bars) => bars.iter().all(|bar| exact(&bar.value)),
        Shape::Lines { lines, .. } => {
            lines.iter().flat_map(|line| &line.points).all(|(_, value)| exact(value))
        }
        Shape::Tiles { .. } => true,
    }
}

fn bars(chart: &Chart, bars: &[Bar], limits: &[&str]) -> String {
    let ends = bars.iter().flat_map(|bar| [bar.value.low, bar.value.median, bar.value.high]);
    let scale =
        Scale::new(ends.chain(chart.markers.iter().map(|marker| marker.value)), chart.logarithmic, true);
    let mut html = String::from("<div class=\"plot\"><div class=\"grid\">");
    for (tick, named) in apart(&scale, &scale.ticks(), 9.0) {
        let place = scale.place(tick);
        let _ = write!(html, "<i style=\"left:{place:.2}%\"></i>");
        if named {
            let _ = write!(html, "<b style=\"left:{place:.2}%\">{}</b>", plain(tick));
        }
    }
    for marker in &chart.markers {
        let _ = write!(
            html,
            "<i class=\"limit\" style=\"left:{:.2}%;color:{}\"></i>",
            scale.place(marker.value),
            limit(&marker.name, limits)
        );
    }
    let _ = writeln!(html, "<em>{}</em></div>", escaped(&chart.unit));
    for bar in bars {
        let (low, middle, high) =
            (scale.place(bar.value.low), scale.place(bar.value.median), scale.place(bar.value.high));
        // Of one run there is nothing that could lie elsewhere.
        let whisker = match bar.value.low < bar.value.high {
            true => {
                format!("<div class=\"whisker\" style=\"left:{low:.2}%;width:{:.2}%\"></div>", high - low)
            }
            false => String::new(),
        };
        let class = if bar.control { "row control" } else { "row" };
        let _ = writeln!(
            html,
            "<div class=\"{class}\" title=\"{} to {} {}\"><span>{}</span><div><div class=\"fill\" \
             style=\"width:{middle:.2}%\"></div>{}<div class=\"value\">{}</div></div></div>",
            digits(bar.value.low),
            digits(bar.value.high),
            escaped(&chart.unit),
            escaped(&bar.name),
            whisker,
            digits(bar.value.median),
        );
    }
    html.push_str("</div>\n");
    html.push_str(&legend(&[], (&chart.markers, limits), bars.iter().any(|bar| bar.control)));
    html
}

fn lines(chart: &Chart, (axis, logarithmic): (&str, bool), lines: &[ChartLine], limits: &[&str]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = points().flat_map(|(_, value)| [value.low, value.median, value.high]);
    let y = Scale::new(ends.chain(chart.markers.iter().map(|marker| marker.value)), chart.logarithmic, true);
    let x = Scale::new(points().map(|(x, _)| *x), logarithmic, false);
    let mut html = String::from("<div class=\"lines\">");
    for (tick, named) in apart(&y, &y.ticks(), 6.0) {
        let place = 100.0 - y.place(tick);
        let _ = write!(html, "<s style=\"top:{place:.2}%\"></s>");
        if named {
            let _ = write!(html, "<u class=\"y\" style=\"top:{place:.2}%\">{}</u>", plain(tick));
        }
    }
    for marker in &chart.markers {
        let (place, color) = (100.0 - y.place(marker.value), limit(&marker.name, limits));
        let _ = write!(html, "<s class=\"limit\" style=\"top:{place:.2}%;color:{color}\"></s>");
    }
    // Every place where something was measured is named, unless there are many.
    let mut places: Vec<f64> = points().map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let places = if places.len() > 12 { x.ticks() } else { places };
    for (place, _) in apart(&x, &places, 7.0).into_iter().filter(|(_, named)| *named) {
        let _ = write!(html, "<u class=\"x\" style=\"left:{:.2}%\">{}</u>", x.place(place), plain(place));
    }
    let _ = write!(html, "<u class=\"axis\">{}</u>", escaped(axis));
    html.push_str("<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    for (index, line) in lines.iter().enumerate() {
        let at =
            |x_value: f64, y_value: f64| format!("{:.2},{:.2}", x.place(x_value), 100.0 - y.place(y_value));
        let upper = line.points.iter().map(|(place, value)| at(*place, value.high));
        let lower = line.points.iter().rev().map(|(place, value)| at(*place, value.low));
        let band: Vec<String> = upper.chain(lower).collect();
        let middle: Vec<String> = line.points.iter().map(|(place, value)| at(*place, value.median)).collect();
        if middle.len() > 1 {
            let (color, dashes) = (color(index), STROKES[index / COLORS % STROKES.len()]);
            let _ = write!(
                html,
                "<path class=\"band\" style=\"fill:{color}\" d=\"M{}Z\"/><path style=\"stroke:{color}{dashes}\" d=\"M{}\"/>",
                band.join("L"),
                middle.join("L"),
            );
        }
    }
    html.push_str("</svg>");
    for (index, line) in lines.iter().enumerate() {
        for (place, value) in &line.points {
            let _ = write!(
                html,
                "<em style=\"left:{:.2}%;top:{:.2}%;background:{}\" title=\"{}: {} ({} to {}) {}\"></em>",
                x.place(*place),
                100.0 - y.place(value.median),
                color(index),
                escaped(&line.name),
                digits(value.median),
                digits(value.low),
                digits(value.high),
                escaped(&chart.unit),
            );
        }
    }
    html.push_str("</div>\n");
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    html.push_str(&legend(&names, (&chart.markers, limits), false));
    html
}

/// Which of ascending ticks get their number: none that would stand on another's, as many hundredths of the
/// axis away.
fn apart(scale: &Scale, ticks: &[f64], least: f64) -> Vec<(f64, bool)> {
    let mut last = f64::NEG_INFINITY;
    let mut name = |tick: &f64| {
        let place = scale.place(*tick);
        let named = place - last >= least;
        last = if named { place } else { last };
        (*tick, named)
    };
    ticks.iter().map(&mut name).collect()
}

fn legend(lines: &[&str], (markers, limits): (&[Marker], &[&str]), controls: bool) -> String {
    if lines.is_empty() && markers.is_empty() && !controls {
        return String::new();
    }
    let mut html = String::from("<div class=\"legend\">");
    for (index, name) in lines.iter().enumerate() {
        let (color, dashes) = (color(index), STROKES[index / COLORS % STROKES.len()]);
        let _ = write!(
            html,
            "<span><svg class=\"key\" viewBox=\"0 0 36 4\" aria-hidden=\"true\"><path d=\"M0 2H36\" \
             style=\"stroke:{color}{dashes}\"/></svg>{}</span>",
            escaped(name)
        );
    }
    if controls {
        html.push_str("<span><i class=\"pale\"></i>control, which does less on purpose</span>");
    }
    for marker in markers {
        let _ = write!(
            html,
            "<span><i class=\"dash\" style=\"color:{}\"></i>{} ({})</span>",
            limit(&marker.name, limits),
            escaped(&marker.name),
            digits(marker.value)
        );
    }
    html.push_str("</div>\n");
    html
}

/// How many colours the page has.
const COLORS: usize = 8;

/// More lines than colours are told apart by their strokes.
const STROKES: [&str; 4] =
    ["", ";stroke-dasharray:8 4", ";stroke-dasharray:2 4", ";stroke-dasharray:10 3 2 3"];

fn color(index: usize) -> String {
    format!("var(--c{})", index % COLORS)
}

/// The colours of limits, which are others than those of bars and of the first lines.
const LIMITS: [usize; 4] = [6, 4, 3, 5];

/// A limit has its colour by its place among those of the page.
fn limit(name: &str, limits: &[&str]) -> String {
    let place = limits.iter().position(|other| *other == name).unwrap_or(0);
    color(LIMITS[place % LIMITS.len()])
}

/// From values to places, 0 to 100.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// A scale that has room for all values; from zero, if it is one of amounts.
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool, amounts: bool) -> Scale {
        let usable = |value: &f64| value.is_finite() && (!logarithmic || *value > 0.0);
        let (mut low, mut high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (0.1, 1.0);
        }
        if logarithmic && amounts {
            // A bar of the least still has a length: from the 1, 2 or 5 below it.
            let below = low * 0.7;
            let power = 10f64.powf(below.log10().floor());
            let step = [5.0, 2.0].into_iter().find(|step| step * power <= below).unwrap_or(1.0);
            low = step * power;
        } else if amounts {
            low = low.min(0.0);
        }
        if high <= low {
            high = if low == 0.0 { 1.0 } else { low * 2.0 };
        }
        Scale { low, high, logarithmic }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.logarithmic {
            true => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        if part.is_finite() { part.clamp(0.0, 1.0) * 100.0 } else { 0.0 }
    }

    fn ticks(&self) -> Vec<f64> {
        let mut ticks = Vec::new();
        if self.logarithmic {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let every = (decades / 8.0).ceil().max(1.0) as i32;
            let mut power = self.low.log10().floor() as i32;
            while 10f64.powi(power) <= self.high * 1.0001 {
                ticks.extend(steps.iter().map(|step| step * 10f64.powi(power)));
                power += every;
            }
        } else {
            let rough = (self.high - self.low) / 5.0;
            let power = 10f64.powf(rough.log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= rough);
            let step = step.unwrap_or(10.0 * power);
            let first = (self.low / step).ceil() as i64;
            ticks.extend((first..first + 12).map(|number| number as f64 * step));
        }
        ticks.retain(|tick| (self.low * 0.9999..=self.high * 1.0001).contains(tick));
        ticks
    }
}

/// A value with the digits that count: what is whole was counted.
fn digits(value: f64) -> String {
    let digits = if value.fract() == 0.0 { 0 } else { decimals(value) };
    format!("{value:.digits$}")
}

/// A value on an axis.
fn plain(value: f64) -> String {
    match value.abs() {
        v if v >= 1e15 => format!("{value:.0e}"),
        v if v >= 1e12 => plain(value / 1e12) + "T",
        v if v >= 1e9 => plain(value / 1e9) + "G",
        v if v >= 1e6 => plain(value / 1e6) + "M",
        v if v >= 10.0 || v == 0.0 => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(median: f64) -> Interval {
        Interval { low: median * 0.9, median, high: median * 1.1 }
    }

    #[test]
    fn scales_have_room_for_all() {
        let scale = Scale::new([0.5, 30.0].into_iter(), true, true);
        assert_eq!((scale.place(0.2), scale.place(30.0)), (0.0, 100.0));
        assert!(scale.place(0.5) > 10.0, "a bar that is seen");
        assert_eq!(scale.ticks(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        let scale = Scale::new([3.0, 48.0].into_iter(), false, true);
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(scale.place(24.0), 50.0);
        for strange in [vec![], vec![0.0], vec![f64::NAN], vec![-1.0, 1.0], vec![1e-300, 1e300]] {
            for logarithmic in [false, true] {
                let scale = Scale::new(strange.iter().copied(), logarithmic, true);
                assert!(scale.ticks().len() < 40, "{strange:?}");
                assert!((0.0..=100.0).contains(&scale.place(1.0)), "{strange:?}");
            }
        }
    }

    #[test]
    fn numbers_are_those_that_people_write() {
        assert_eq!([16.0, 1_361.0, 2.5, 0.25].map(digits), ["16", "1361", "2.50", "0.250"]);
        assert_eq!([1e6, 1.5e6, 2e9, 5e12, 500_000.0].map(plain), ["1M", "1.5M", "2G", "5T", "500000"]);
    }

    #[test]
    fn numbers_do_not_stand_on_each_other() {
        let scale = Scale::new([1.0, 100.0].into_iter(), true, false);
        let named = apart(&scale, &[1.0, 1.1, 2.0, 5.0, 5.1, 100.0], 9.0);
        let named: Vec<bool> = named.into_iter().map(|(_, named)| named).collect();
        assert_eq!(named, [true, false, true, true, false, true]);
    }

    #[test]
    fn figures_have_every_row_and_escape_names() {
        let bar = |name: &str, median| Bar { name: name.to_string(), value: value(median), control: false };
        let bars = vec![bar("a<b>", 1.0), bar("c", 20.0)];
        let html = chart(&Chart::bars("T", "GB/s", bars).logarithmic().marker("read & copy", 30.0), &[]);
        assert_eq!(
            (html.matches("class=\"fill\"").count(), html.matches("class=\"whisker\"").count()),
            (2, 2)
        );
        assert!(html.contains("<em>GB/s</em>") && !html.contains("does less"));
        // One run has a bar and no interval, and says so.
        let exact = Interval { low: 2.0, median: 2.0, high: 2.0 };
        let once = Bar { name: "null".to_string(), value: exact, control: true };
        let once = chart(&Chart::bars("T", "ms", vec![once]).of_rounds(1), &[]);
        assert!(once.contains("one run each") && !once.contains("class=\"whisker\""), "{once}");
        assert!(once.contains("does less on purpose"), "{once}");
        assert!(
            html.contains("a&lt;b&gt;")
                && html.contains("read &amp; copy (30)")
                && html.contains("<figcaption>equal steps")
        );
        let line = |name: &str| ChartLine {
            name: name.to_string(),
            points: vec![(1.0, value(1.0)), (2.0, value(2.0))],
        };
        let html = chart(&Chart::lines("T", "GB/s", "threads", vec![line("x"), line("y")]), &[]);
        assert_eq!((html.matches("class=\"band\"").count(), html.matches("<em ").count()), (2, 4));
        assert!(!html.contains("NaN") && html.contains("threads"));
        let many = (0..9).map(|n| line(&n.to_string())).collect();
        let html = chart(&Chart::lines("T", "GB/s", "threads", many), &[]);
        // The ninth has the first one's colour: in the drawing and in the legend it is dashed.
        assert_eq!(html.matches("var(--c0);stroke-dasharray").count(), 2, "{html}");
    }

    #[test]
    fn a_limit_has_its_colour_on_the_whole_page() {
        let bars = |first: &str, second: &str| {
            let bar = Bar { name: "a".to_string(), value: value(1.0), control: false };
            Chart::bars("T", "GB/s", vec![bar]).marker(first, 1.0).marker(second, 2.0)
        };
        let charts = [bars("copy", "read"), bars("read", "copy")];
        let names = limits(&charts);
        assert_eq!(names, ["copy", "read"]);
        for drawn in charts.iter().map(|drawn| chart(drawn, &names)) {
            for (name, color) in [("copy", "var(--c6)"), ("read", "var(--c4)")] {
                assert!(drawn.contains(&format!("color:{color}\"></i>{name} (")), "{name}: {drawn}");
            }
        }
    }
}
