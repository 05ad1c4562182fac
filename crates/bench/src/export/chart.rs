//! Charts of a report: bars with intervals, lines, and treemaps.

use crate::stats::{Interval, fewest_rounds_of};

/// A picture of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// In what, as `GB/s`.
    pub unit: String,
    /// Whether equal steps are equal factors.
    pub logarithmic: bool,
    /// Values that others are to be seen beside: the machine's limits.
    pub markers: Vec<Marker>,
    /// Whether there were too few rounds for intervals, so that what is shown is the range of all.
    pub ranges: bool,
    /// Bars or lines.
    pub shape: Shape,
}

/// How it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A bar for each row, from the top.
    Bars(Vec<Bar>),
    /// Lines over a common axis.
    Lines {
        /// What the axis is, as `threads`.
        axis: String,
        /// Whether its equal steps are equal factors.
        logarithmic: bool,
        /// The lines.
        lines: Vec<ChartLine>,
    },
    /// A box for each part, as large as it.
    Tiles {
        /// What the colours mean, from the first.
        levels: Vec<String>,
        /// The boxes.
        tiles: Vec<Tile>,
    },
}

/// A box of a treemap.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// What it stands for.
    pub name: String,
    /// The short form of the name, which is written in it.
    pub label: String,
    /// What else is written in it.
    pub note: String,
    /// Its area.
    pub value: f64,
    /// Which colour it has; the last one, if there are fewer.
    pub level: usize,
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its length, and the range in which it is known.
    pub value: Interval,
    /// Whether it is a control, which is drawn paler.
    pub control: bool,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// What it stands for.
    pub name: String,
    /// Its points, from left to right: the place on the axis, and the value.
    pub points: Vec<(f64, Interval)>,
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// What it is, as `read`.
    pub name: String,
    /// Where it is.
    pub value: f64,
}

impl Chart {
    /// A chart of bars.
    pub fn bars(title: impl Into<String>, unit: impl Into<String>, bars: Vec<Bar>) -> Chart {
        Chart::of(title.into(), unit.into(), Shape::Bars(bars))
    }

    /// A chart of lines over an axis.
    pub fn lines(
        title: impl Into<String>,
        unit: impl Into<String>,
        axis: impl Into<String>,
        lines: Vec<ChartLine>,
    ) -> Chart {
        let shape = Shape::Lines { axis: axis.into(), logarithmic: false, lines };
        Chart::of(title.into(), unit.into(), shape)
    }

    /// A treemap, with what its colours mean.
    pub fn tiles(
        title: impl Into<String>,
        unit: impl Into<String>,
        levels: Vec<String>,
        tiles: Vec<Tile>,
    ) -> Chart {
        Chart::of(title.into(), unit.into(), Shape::Tiles { levels, tiles })
    }

    fn of(title: String, unit: String, shape: Shape) -> Chart {
        Chart { title, unit, logarithmic: false, markers: Vec::new(), ranges: false, shape }
    }

    /// With steps that are factors.
    pub fn logarithmic(mut self) -> Chart {
        self.logarithmic = true;
        self
    }

    /// With an axis whose steps are factors.
    pub fn logarithmic_axis(mut self) -> Chart {
        if let Shape::Lines { logarithmic, .. } = &mut self.shape {
            *logarithmic = true;
        }
        self
    }

    /// Drawn from so many rounds: of fewer than an interval needs, ranges are drawn.
    pub fn of_rounds(mut self, rounds: usize) -> Chart {
        self.ranges = rounds < fewest_rounds_of(1);
        self
    }

    /// With a limit marked.
    pub fn marker(mut self, name: impl Into<String>, value: f64) -> Chart {
        self.markers.push(Marker { name: name.into(), value });
        self
    }
}
