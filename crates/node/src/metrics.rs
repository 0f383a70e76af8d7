//! What was counted, in the text format of Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::driver::Counts;
use crate::node::JournalCounts;
use crate::transport::{PeerStatistics, Statistics};

/// The text of all metrics; those of the transport only of a member of a cluster.
pub(crate) fn text(
    counts: &Counts,
    journal: &JournalCounts,
    transport: Option<&Statistics>,
) -> String {
    let mut registry = Registry::with_prefix("outlast");
    for (name, help, count) in counters(counts, journal) {
        registry.register(name, help, ConstCounter::new(count));
    }
    for (name, help, level) in gauges(counts, journal) {
        registry.register(name, help, ConstGauge::new(level));
    }
    if let Some(transport) = transport {
        register_transport(&mut registry, transport);
    }
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to memory does not fail");
    text
}

fn register_transport(registry: &mut Registry, transport: &Statistics) {
    let sum = |count: fn(&PeerStatistics) -> u64| transport.peers.values().map(count).sum();
    let strangers = transport.crowded + transport.slow + transport.refused;
    let counters: [Measured<u64>; 6] = [
        ("messages_sent", "Messages sent to other nodes", sum(|peer| peer.sent)),
        ("messages_received", "Messages received from other nodes", sum(|peer| peer.received)),
        ("messages_displaced", "Messages that made room for newer", sum(|peer| peer.displaced)),
        ("peer_connections", "How often a peer was reached", sum(|peer| peer.connections)),
        ("strangers", "Connections that were not let in", strangers),
        ("join_requests", "Requests to join that were answered", transport.joining),
    ];
    for (name, help, count) in counters {
        registry.register(name, help, ConstCounter::new(count));
    }
    let connected = transport.peers.values().filter(|peer| peer.connected).count();
    let gauges: [Measured<f64>; 2] = [
        ("peers", "Other nodes that are known", transport.peers.len() as f64),
        ("peers_connected", "Other nodes that messages can leave for", connected as f64),
    ];
    for (name, help, level) in gauges {
        registry.register(name, help, ConstGauge::new(level));
    }
}

type Measured<T> = (&'static str, &'static str, T);

const fn counters(counts: &Counts, journal: &JournalCounts) -> [Measured<u64>; 20] {
    let engine = &counts.engine;
    [
        ("steps", "Steps of the engine", engine.steps),
        ("records", "Journal records written", engine.records),
        ("record_bytes", "Bytes of journal records written", engine.record_bytes),
        ("journal_syncs", "Syncs of the journal", journal.syncs),
        ("executions_started", "Executions started", engine.started),
        ("executions_completed", "Executions that completed", engine.completed),
        ("executions_faulted", "Executions that faulted", engine.faulted),
        ("executions_cancelled", "Executions that were cancelled", engine.cancelled),
        ("executions_compensated", "Executions that were rolled back", engine.compensated),
        ("calls", "Calls to services", engine.calls),
        ("stale_answers", "Answers that nobody waited for", engine.stale_answers),
        ("requests_refused", "Requests that were refused", engine.refused),
        ("peer_messages", "Messages of other nodes that were taken", engine.messages),
        ("strange_messages", "Messages that nobody could make sense of", engine.strange_messages),
        ("peers_lost", "How often another node was found out of reach", engine.peers_lost),
        ("timers_fired", "Timers that fired", engine.timers_fired),
        ("events", "Events taken in", engine.events),
        ("events_dropped", "Early events that nobody came for in time", engine.events_dropped),
        ("executions_woken", "Sleeping executions that were woken", engine.woken),
        ("executions_put_to_sleep", "Executions that were put to sleep", engine.put_to_sleep),
    ]
}

fn gauges(counts: &Counts, journal: &JournalCounts) -> [Measured<f64>; 9] {
    let engine = &counts.engine;
    [
        ("executions_live", "Executions that have not ended", engine.live as f64),
        ("executions_ended", "Executions that have ended and are kept", engine.ended as f64),
        ("executions_parked", "Executions in which something is parked", engine.parked as f64),
        ("work_queued", "Units of work that wait for their turn", engine.queued as f64),
        ("timers", "Timers that are set", engine.timers as f64),
        ("calls_under_way", "Calls and evaluations under way", counts.calls as f64),
        ("requests_waiting", "Requests that wait for their reply", counts.callers as f64),
        (
            "journal_lag_seconds",
            "Age of the oldest record not yet durable",
            journal.lag.as_secs_f64(),
        ),
        ("journal_durable_position", "The newest durable record", journal.durable.0 as f64),
    ]
}
