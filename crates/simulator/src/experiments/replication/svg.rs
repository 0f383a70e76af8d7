//! Pictures by hand: lines, rectangles and words with places, as SVG.

use std::fmt::Write as _;

/// A picture that is being drawn.
#[derive(Debug)]
pub(super) struct Picture {
    text: String,
}

/// Where words stand relative to their place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Picture {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut text = String::new();
        writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\" \
             font-size=\"12\" role=\"img\">\n<title>{}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>",
            escaped(title)
        )
        .expect("text grows");
        Self { text }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.put(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
             stroke-dasharray=\"{dashes}\" stroke-linejoin=\"round\"/>",
            points.join(" ")
        ));
    }

    pub(super) fn rectangle(&mut self, at: (f64, f64), size: (f64, f64), colour: &str) {
        self.put(&format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            at.0, at.1, size.0, size.1
        ));
    }

    /// A shape with so many corners around a place; none is a disc.
    pub(super) fn marker(&mut self, (x, y): (f64, f64), corners: usize, colour: &str) {
        const RADIUS: f64 = 3.6;
        if corners == 0 {
            return self.put(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"{colour}\"/>",
                RADIUS - 0.6
            ));
        }
        let corner = |number: usize| {
            let angle = std::f64::consts::TAU * number as f64 / corners as f64;
            let (sine, cosine) = angle.sin_cos();
            format!("{:.1},{:.1}", x + RADIUS * sine, y - RADIUS * cosine)
        };
        let points: Vec<_> = (0..corners).map(corner).collect();
        self.put(&format!("<polygon points=\"{}\" fill=\"{colour}\"/>", points.join(" ")));
    }

    pub(super) fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, words: &str) {
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
            anchor.word(),
            escaped(words)
        ));
    }

    pub(super) fn heading(&mut self, (x, y): (f64, f64), words: &str) {
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"14\" \
             font-weight=\"bold\">{}</text>",
            escaped(words)
        ));
    }

    /// Words that run upwards, centred at a place.
    pub(super) fn upwards(&mut self, (x, y): (f64, f64), words: &str) {
        self.put(&format!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escaped(words)
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn put(&mut self, element: &str) {
        self.text.push_str(element);
        self.text.push('\n');
    }
}

impl Anchor {
    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A scale from zero to a round number that is not below the most, in round steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    pub(super) step: f64,
    pub(super) steps: usize,
}

impl Scale {
    pub(super) fn up_to(most: f64) -> Self {
        const STEPS_MAX: f64 = 6.0;
        let mut power = 0.001;
        loop {
            for factor in [1.0, 2.0, 5.0] {
                let step = power * factor;
                if most <= step * STEPS_MAX {
                    return Self { step, steps: ((most / step).ceil() as usize).max(1) };
                }
            }
            power *= 10.0;
        }
    }

    pub(super) fn top(self) -> f64 {
        self.step * self.steps as f64
    }

    /// The numbers along it.
    pub(super) fn ticks(self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(move |number| self.step * number as f64)
    }
}
