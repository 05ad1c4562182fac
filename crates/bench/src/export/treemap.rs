//! A treemap: boxes whose areas are amounts, side by side in one rectangle.
//!
//! The layout is that of Bruls, Huizing and van Wijk, *Squarified Treemaps* (2000): rows of boxes that are as square as
//! they can be. Places are shares of the rectangle, so the drawing fits any width.

use std::fmt::Write;

use super::chart::Tile;
use super::html::escaped;

/// How treemaps look. There is a colour for each of [`LEVELS`]. On paper no box is a container: Chromium prints blank
/// sheets if it has to shrink a page that has containers.
pub(super) const STYLE: &str = "
:root{--t0:#e3edf8;--t1:#d3e6dc;--t2:#f3ecc9;--t3:#f6dbb0;--t4:#f3c1a0;--t5:#eba6a0}
@media(prefers-color-scheme:dark){:root{--t0:#1f2d40;--t1:#1d3a2c;--t2:#3d381d;--t3:#4f3a1c;--t4:#5f3824;--t5:#6e2f2f}}
.tiles{position:relative;height:26rem;border:1px solid var(--rule);overflow:hidden}
.tiles span{position:absolute;overflow:hidden;container-type:size;box-shadow:inset 0 0 0 1px var(--page);color:var(--ink);
font-size:.78rem;line-height:1.2;background:var(--t0)}
.tiles b,.tiles i{display:none;margin:.15rem .35rem 0;font:inherit}
.tiles b{overflow:hidden;white-space:nowrap;text-overflow:ellipsis}
@container (min-width:3.5rem) and (min-height:2.4rem){.tiles b{display:block}}
@container (min-width:8.5rem) and (min-height:5.4rem){.tiles i{display:block}}
@container (min-width:19rem) and (min-height:3.4rem){.tiles i{display:block}}
@media print{.tiles span{container-type:normal}.tiles b{display:block}}
.tiles .t1{background:var(--t1)}.tiles .t2{background:var(--t2)}.tiles .t3{background:var(--t3)}
.tiles .t4{background:var(--t4)}.tiles .t5{background:var(--t5)}
.legend i.tile{height:.8rem;border:1px solid var(--rule)}
";

/// How many colours there are.
pub(super) const LEVELS: usize = 6;

/// The proportion of width and height that boxes are laid out for: that of a page; a telephone has another.
const ASPECT: f64 = 2.4;

/// Boxes for those that are larger than nothing.
pub(super) fn treemap(tiles: &[Tile], levels: &[String]) -> String {
    let mut shown: Vec<&Tile> =
        tiles.iter().filter(|tile| tile.value > 0.0 && tile.value.is_finite()).collect();
    shown.sort_by(|a, b| b.value.total_cmp(&a.value));
    let areas: Vec<f64> = shown.iter().map(|tile| tile.value).collect();
    // The table below says the same to those who do not see it.
    let mut html = String::from("<div class=\"tiles\" aria-hidden=\"true\">");
    for (tile, place) in shown.iter().zip(layout(&areas)) {
        let _ = write!(
            html,
            "<span class=\"t{}\" style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%\" title=\"{}\">",
            tile.level.min(LEVELS - 1),
            place.left * 100.0 / ASPECT,
            place.top * 100.0,
            place.width * 100.0 / ASPECT,
            place.height * 100.0,
            escaped(&format!("{}: {}", tile.name, tile.note)),
        );
        // In smaller ones nobody could read. What does not fit on a narrow page is hidden there.
        if place.width > 0.14 && place.height > 0.05 {
            // A line for each part of a path.
            for part in tile.label.split_inclusive('/') {
                let _ = write!(html, "<b>{}</b>", escaped(part));
            }
            let _ = write!(html, "<i>{}</i>", escaped(&tile.note));
        }
        html.push_str("</span>\n");
    }
    html.push_str("</div>\n<div class=\"legend\">");
    for (level, name) in levels.iter().enumerate().take(LEVELS) {
        let _ = write!(
            html,
            "<span><i class=\"tile\" style=\"background:var(--t{level})\"></i>{}</span>",
            escaped(name)
        );
    }
    html.push_str("</div>\n");
    html
}

/// A box in a rectangle that is 1 high.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TreemapBox {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Boxes with these areas, largest first, of a rectangle that they fill.
fn layout(areas: &[f64]) -> Vec<TreemapBox> {
    let total: f64 = areas.iter().sum();
    let mut rest = TreemapBox { left: 0.0, top: 0.0, width: ASPECT, height: 1.0 };
    let mut places = Vec::new();
    let scaled: Vec<f64> = areas.iter().map(|area| area / total * ASPECT).collect();
    let mut begin = 0;
    while begin < scaled.len() {
        let side = rest.width.min(rest.height);
        let mut end = begin + 1;
        while end < scaled.len() && worst(&scaled[begin..=end], side) <= worst(&scaled[begin..end], side) {
            end += 1;
        }
        let row = &scaled[begin..end];
        let sum: f64 = row.iter().sum();
        let depth = if side > 0.0 { sum / side } else { 0.0 };
        let is_column = rest.width >= rest.height;
        let mut offset = 0.0;
        for area in row {
            let length = if depth > 0.0 { area / depth } else { 0.0 };
            places.push(match is_column {
                true => TreemapBox { left: rest.left, top: rest.top + offset, width: depth, height: length },
                false => TreemapBox { left: rest.left + offset, top: rest.top, width: length, height: depth },
            });
            offset += length;
        }
        match is_column {
            true => (rest.left, rest.width) = (rest.left + depth, (rest.width - depth).max(0.0)),
            false => (rest.top, rest.height) = (rest.top + depth, (rest.height - depth).max(0.0)),
        }
        begin = end;
    }
    // What is hardly there suffers from rounding.
    for place in &mut places {
        place.width = place.width.min(ASPECT - place.left);
        place.height = place.height.min(1.0 - place.top);
    }
    places
}

/// How far the least square of a row's boxes is from a square.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let ratio = |area: &f64| (side * side * area / (sum * sum)).max(sum * sum / (side * side * area));
    row.iter().map(ratio).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_fill_the_rectangle_and_do_not_overlap() {
        let areas = [60.0, 60.0, 40.0, 30.0, 20.0, 20.0, 10.0, 1.0, 1e-9];
        let places = layout(&areas);
        let total: f64 = areas.iter().sum();
        for (area, place) in areas.iter().zip(&places) {
            assert!((place.width * place.height - area / total * ASPECT).abs() < 1e-9, "{place:?}");
            assert!(place.left > -1e-9 && place.left + place.width < ASPECT + 1e-9, "{place:?}");
            assert!(place.top > -1e-9 && place.top + place.height < 1.0 + 1e-9, "{place:?}");
        }
        for (index, a) in places.iter().enumerate() {
            for b in &places[..index] {
                let apart = |a: f64, length: f64, b: f64| a + length <= b + 1e-9;
                assert!(
                    apart(a.left, a.width, b.left)
                        || apart(b.left, b.width, a.left)
                        || apart(a.top, a.height, b.top)
                        || apart(b.top, b.height, a.top),
                    "{a:?} {b:?}"
                );
            }
        }
        assert_eq!(layout(&[]), []);
        assert_eq!(layout(&[7.0]), [TreemapBox { left: 0.0, top: 0.0, width: ASPECT, height: 1.0 }]);
    }

    #[test]
    fn names_are_escaped_and_empty_boxes_left_out() {
        let tile = |name: &str, value| Tile {
            name: name.to_string(),
            label: name.to_string(),
            note: "1 & 2".to_string(),
            value,
            level: 9,
        };
        let html =
            treemap(&[tile("<b>", 2.0), tile("none", 0.0), tile("odd", f64::NAN)], &["new".to_string()]);
        assert_eq!(html.matches("<span class=\"t5\"").count(), 1, "{html}");
        assert!(
            html.contains("<b>&lt;b&gt;</b><i>1 &amp; 2</i>")
                && !html.contains("none")
                && !html.contains("NaN")
        );
    }
}
