//! The page around the drawing: what it shows in a sentence, and the story line by line.

use super::story::{Story, What};

const STYLE: &str = include_str!("page.css");

/// One file with everything in it.
pub(super) fn html(story: &Story, drawing: &str, seed: u64) -> String {
    let lines: String = story.events.iter().map(|event| row(story, event)).collect();
    let (nodes, steps) = (story.nodes, story.steps);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>outlast demo: {nodes} nodes, {steps} steps, seed {seed}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>outlast demo</h1>\n<p>{}</p>\n\
         <figure>\n{drawing}</figure>\n<h2>Line by line</h2>\n<ol>{lines}</ol>\n\
         <footer><code>outlast demo --nodes {nodes} --steps {steps} --seed {seed}</code></footer>\n\
         </body>\n</html>\n",
        summary(story)
    )
}

/// What it comes to.
pub(super) fn summary(story: &Story) -> String {
    let kills = story.count(|what| *what == What::Killed);
    let cuts = story.count(|what| matches!(what, What::Cut(_)));
    let (calls, undone) = (story.stepped(0).count(), story.undone().len());
    let kept = story.kept();
    let once = kept.values().filter(|nodes| nodes.len() == 1).count();
    let verdict = match once as u64 == story.steps && calls - undone == once {
        true => "each exactly once".to_owned(),
        false => format!("but only {once} exactly once"),
    };
    let (pause, _) = story.longest_pause();
    format!(
        "{} nodes, {} steps, {kills} kills and {cuts} cut: {calls} steps were done, {undone} of them \
         taken back; {} remain, {verdict}. The longest time without a step was {:.1} s.",
        story.nodes,
        story.steps,
        calls - undone,
        pause as f64 / 1e6
    )
}

fn row(story: &Story, event: &super::story::Event) -> String {
    let line = story.line(event);
    format!("<li class=\"{}\">{}</li>", event.what.word(), line.replace('&', "&amp;"))
}

#[cfg(test)]
mod tests {
    use super::super::drawing;
    use super::super::story::tests::sample;
    use super::*;

    #[test]
    fn the_summary_counts() {
        let said = summary(&sample());
        assert!(said.contains("1 kills and 1 cut: 5 steps were done, 1 of them"), "{said}");
        assert!(said.contains("4 remain, each exactly once"), "{said}");
    }

    #[test]
    fn a_step_that_is_done_twice_is_told() {
        let mut story = sample();
        story.events.retain(|event| !matches!(event.what, What::Undid { .. }));
        assert!(summary(&story).contains("but only 3 exactly once"));
    }

    #[test]
    fn the_page_holds_the_drawing_and_every_line() {
        let story = sample();
        let page = html(&story, &drawing::svg(&story), 7);
        assert_eq!(page.matches("<li ").count(), story.events.len());
        assert!(page.contains("<svg") && page.contains("seed 7"));
    }
}
