//! The command that shows the same world again.

use outlast_simulator::Scenario;

use super::{Arguments, fitting, span};

/// The command that runs exactly this world.
pub(super) fn that_replays(arguments: &Arguments, scenario: &Scenario) -> String {
    let mut words = vec!["outlast simulate".to_owned()];
    words.extend(arguments.flow.iter().map(|flow| quoted(&flow.display().to_string())));
    let others = arguments.definitions.iter().map(|flow| quoted(&flow.display().to_string()));
    words.extend(others.map(|flow| format!("--define {flow}")));
    words.extend(arguments.input.iter().map(|input| format!("--input {}", quoted(input))));
    let survival = &scenario.survival;
    words.push(format!("--seed {} --runs 1", scenario.options.seed));
    words.push(format!("--nodes {}", scenario.options.nodes));
    words.push(format!("--executions {}", scenario.delays.len()));
    words.push(format!("--gossip {}", scenario.options.gossip));
    words.push(format!("--strategy {}", survival.strategy.word()));
    let options = &scenario.options;
    words.push(format!("--latency {}", span::latency_text(options.network.latency)));
    words.push(format!("--service-latency {}", span::latency_text(options.service)));
    words.push(format!("--clock-skew {}", span::text_of(options.skew)));
    let services = if options.deduplicating { "keyed" } else { "keyless" };
    words.push(format!("--services {services}"));
    let budget = survival.budget.map_or_else(|| "none".to_owned(), |cost| cost.to_string());
    let read = fitting::flags_of(survival.strategy);
    let all = [
        ("--replicas", survival.replicas.to_string()),
        ("--votes", survival.votes.to_string()),
        ("--acknowledge", survival.acknowledge.word().to_owned()),
        ("--budget", budget),
        ("--pivots", (if survival.pivots_anywhere { "anywhere" } else { "decided" }).to_owned()),
    ];
    let all = all.into_iter().filter(|(flag, _)| read.contains(flag));
    words.extend(all.map(|(flag, value)| format!("{flag} {value}")));
    // What may go wrong also says how rough the network is when nothing does.
    let [rough, calm] = fitting::ROUGHNESS;
    let roughness = arguments.faults.iter().map(|it| if it == calm { calm } else { rough });
    words.extend(roughness.map(|faults| format!("--faults {faults}")));
    if scenario.options.faults.is_empty() {
        words.push("--fault none".to_owned());
    }
    words.extend(scenario.options.faults.iter().map(|fault| format!("--fault '{fault}'")));
    words.push("--trace".to_owned());
    words.join(" ")
}

/// Quotes what a shell would take apart.
fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-@,".contains(character);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use outlast_simulator::{Recording, Wanted, Workload};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn names_the_faults_that_are_left_and_quotes_what_needs_it() {
        let mut scenario = Scenario::draw(7, &Wanted::default(), &Workload::built_in());
        scenario.options.faults = vec!["crash@1+2:1".parse().unwrap()];
        let words = ["simulate", "a flow.yaml", "--input", r#"{"it's": 1}"#];
        let command = that_replays(&Line::parse_from(words).arguments, &scenario);
        assert!(command.starts_with(r#"outlast simulate 'a flow.yaml' --input '{"it'\''s": 1}'"#));
        assert!(command.ends_with("--fault 'crash@1+2:1' --trace"), "{command}");
    }

    #[test]
    fn names_only_flags_that_are_taken_and_the_same_world_comes_of_them() {
        let flows = Workload::built_in();
        for seed in 0..100 {
            let scenario = Scenario::draw(seed, &Wanted::default(), &flows);
            let command = that_replays(&Line::parse_from(["simulate"]).arguments, &scenario);
            let words = command.replace('\'', "");
            let arguments = Line::parse_from(words.split(' ').skip(1)).arguments;
            let wanted = super::super::wanted(&arguments).expect(&command);
            let again = Scenario::draw(seed, &wanted, &flows);
            assert_eq!(text_of(again), text_of(scenario), "{command}");
        }
    }

    /// What was drawn of some kinds is named fault by fault; how rough the network is goes with the kinds.
    #[test]
    fn names_a_world_of_some_kinds_of_faults_so_that_it_is_taken() {
        let flows = Workload::built_in();
        for (seed, kinds) in (0..60).zip(["crash,disk", "none", "all"].into_iter().cycle()) {
            let given = Line::parse_from(["simulate", "--faults", kinds]).arguments;
            let scenario = Scenario::draw(seed, &super::super::wanted(&given).unwrap(), &flows);
            let words = that_replays(&given, &scenario).replace('\'', "");
            let again = Line::parse_from(words.split(' ').skip(1)).arguments;
            let again = Scenario::draw(seed, &super::super::wanted(&again).expect(&words), &flows);
            assert_eq!(text_of(again), text_of(scenario), "{words}");
        }
    }

    /// All that a world is made of.
    fn text_of(scenario: Scenario) -> String {
        Recording { scenario, flow: None, run: Vec::new() }.to_text()
    }

    #[test]
    fn names_what_was_asked_for_of_times_and_services() {
        let flows = Workload::built_in();
        let words = "simulate --latency 5ms..80ms --service-latency 100ms~400ms --clock-skew 2s \
                     --services keyless";
        let arguments = Line::parse_from(words.split_whitespace()).arguments;
        let wanted = super::super::wanted(&arguments).unwrap();
        for seed in 0..20 {
            let command = that_replays(&arguments, &Scenario::draw(seed, &wanted, &flows));
            for word in words.split(" --").skip(1) {
                let asked = format!(" --{} ", word.trim());
                assert!(command.contains(&asked), "{asked}: {command}");
            }
        }
    }
}
