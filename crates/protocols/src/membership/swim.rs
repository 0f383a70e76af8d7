//! The gossip library as a value without callbacks: what it wants sent is collected, what it wants
//! woken for is kept in order of time, and its random numbers come from the seed it was given.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Config, Foca, NoCustomBroadcast, Notification, Runtime};
use outlast_lineage::{NodeId, Time};
use rand_core::TryRng;

use super::Options;
use super::packet::{Account, Codec, Identity, PACKET_BYTES_MAX};

/// How many members are asked to probe for another, and get news at once.
const FANOUT: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// How often a piece of news rides along before it counts as known.
const TRANSMISSIONS: NonZeroU8 = NonZeroU8::new(8).unwrap();

/// The library with all that surrounds it.
pub(super) struct Swim {
    foca: Foca<Identity, Codec, Generator, NoCustomBroadcast>,
    wishes: Wishes,
    alarms: Alarms,
    connected: bool,
    patience: Duration,
}

/// What the library asked for in one call.
#[derive(Default)]
struct Wishes {
    sends: Vec<(NodeId, Vec<u8>)>,
    alarms: Vec<(Duration, foca::Timer<Identity>)>,
    connected: Option<bool>,
    renewed: bool,
}

/// What the library waits for, in order of time and then of asking.
#[derive(Default)]
struct Alarms {
    pending: BTreeMap<(Time, u64), foca::Timer<Identity>>,
    asked: u64,
}

impl Swim {
    pub(super) fn new(options: &Options, identity: Identity, seed: u64) -> Self {
        Self {
            foca: Foca::new(identity, config(options), Generator(seed), Codec),
            wishes: Wishes::default(),
            alarms: Alarms::default(),
            connected: false,
            patience: options.probe_every,
        }
    }

    /// Takes a packet. One that the library refuses changes nothing; whether it was taken is said.
    pub(super) fn receive(&mut self, now: Time, packet: &[u8]) -> bool {
        let taken = self.foca.handle_data(packet, &mut self.wishes).is_ok();
        self.note_wishes(now);
        taken
    }

    /// Takes accounts of members as if they had been gossiped.
    pub(super) fn believe(&mut self, now: Time, accounts: impl Iterator<Item = Account>) {
        let members = accounts.map(foca::Member::from);
        let _impossible = self.foca.apply_many(members, true, &mut self.wishes);
        self.note_wishes(now);
    }

    /// Tells a node that this one is here. It answers with the members it knows.
    pub(super) fn announce(&mut self, now: Time, node: NodeId) {
        let _impossible = self.foca.announce(Identity::unknown(node), &mut self.wishes);
        self.note_wishes(now);
    }

    /// Tells some members the news, if there is any.
    pub(super) fn gossip(&mut self, now: Time) {
        if 0 < self.foca.updates_backlog() {
            let _impossible = self.foca.gossip(&mut self.wishes);
            self.note_wishes(now);
        }
    }

    /// Goes on in another incarnation.
    pub(super) fn become_another(&mut self, now: Time, identity: Identity) {
        // The only error is that nothing changes.
        if self.foca.change_identity(identity, &mut self.wishes).is_ok() {
            self.wishes.renewed = true;
            self.wishes.connected = Some(false);
        }
        self.note_wishes(now);
    }

    /// Falls silent, as the incarnation that says so. Telling the others is the caller's.
    pub(super) fn leave(&mut self, now: Time) {
        let leaving = self.foca.identity().leaving();
        let _impossible = self.foca.change_identity(leaving, &mut self.wishes);
        let _impossible = self.foca.leave_cluster(&mut self.wishes);
        self.wishes.sends.clear();
        self.note_wishes(now);
    }

    /// Forgets a member that is down.
    pub(super) fn forget(&mut self, now: Time, node: NodeId) {
        let Some(identity) = self.member(node).map(|member| member.id().clone()) else { return };
        let timer = foca::Timer::RemoveDown(identity);
        let _impossible = self.foca.handle_timer(timer, &mut self.wishes);
        self.note_wishes(now);
    }

    /// Does what the time has come for.
    pub(super) fn wake(&mut self, now: Time) {
        self.alarms.forgive_a_stall(now, self.patience);
        while let Some(timer) = self.alarms.take_due(now) {
            // An alarm of an earlier incarnation, or for a probe cut short, does no harm.
            let _stale = self.foca.handle_timer(timer, &mut self.wishes);
            self.note_wishes(now);
        }
    }

    fn note_wishes(&mut self, now: Time) {
        for (after, timer) in self.wishes.alarms.drain(..) {
            self.alarms.ask(now.after(after), timer);
        }
        self.connected = self.wishes.connected.take().unwrap_or(self.connected);
    }

    /// What is to be sent, in order.
    pub(super) fn take_sends(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        std::mem::take(&mut self.wishes.sends)
    }

    /// Whether the incarnation changed since this was last asked.
    pub(super) fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.wishes.renewed)
    }

    /// When it has to be woken next.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.alarms.pending.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn identity(&self) -> &Identity {
        self.foca.identity()
    }

    /// Whether someone is known to know this incarnation.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Everything that is believed of the other members.
    pub(super) fn members(&self) -> impl Iterator<Item = &foca::Member<Identity>> {
        let me = self.identity().node();
        self.foca.iter_membership_state().filter(move |member| member.id().node() != me)
    }

    pub(super) fn member(&self, node: NodeId) -> Option<&foca::Member<Identity>> {
        self.members().find(|member| member.id().node() == node)
    }
}

impl Runtime<Identity> for Wishes {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        match notification {
            Notification::Active => self.connected = Some(true),
            Notification::Idle | Notification::Defunct => self.connected = Some(false),
            Notification::Rejoin(_) => (self.connected, self.renewed) = (Some(false), true),
            // What became of others is read off the members.
            Notification::MemberUp(_) | Notification::MemberDown(_) | Notification::Rename(..) => {}
        }
    }

    fn send_to(&mut self, to: Identity, packet: &[u8]) {
        self.sends.push((to.node(), packet.to_vec()));
    }

    fn submit_after(&mut self, timer: foca::Timer<Identity>, after: Duration) {
        self.alarms.push((after, timer));
    }
}

impl Alarms {
    fn ask(&mut self, at: Time, timer: foca::Timer<Identity>) {
        if let foca::Timer::RemoveDown(identity) = &timer {
            self.drop_removals_of(identity.node());
        }
        self.asked += 1;
        self.pending.insert((at, self.asked), timer);
    }

    /// Only the last incarnation is still there to be removed, and a node that comes and goes
    /// must not pile alarms up.
    fn drop_removals_of(&mut self, node: NodeId) {
        self.pending.retain(
            |_, timer| !matches!(timer, foca::Timer::RemoveDown(other) if other.node() == node),
        );
    }

    fn take_due(&mut self, now: Time) -> Option<foca::Timer<Identity>> {
        let first = self.pending.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    /// If this process was stalled, answers wait in its queues and nobody else is late: all that
    /// it waits for is put off by as long as it was late itself.
    fn forgive_a_stall(&mut self, now: Time, patience: Duration) {
        let Some(first) = self.pending.keys().next().map(|(at, _)| *at) else { return };
        let late = now.since(first);
        if patience < late {
            let pending = std::mem::take(&mut self.pending);
            let put_off =
                |((at, number), timer): ((Time, u64), _)| ((at.after(late), number), timer);
            self.pending = pending.into_iter().map(put_off).collect();
        }
    }
}

fn config(options: &Options) -> Config {
    Config {
        probe_period: options.probe_every,
        // Leaves as long again for others to ask, and for their answers to come back.
        probe_rtt: options.probe_every / 3,
        num_indirect_probes: FANOUT,
        max_transmissions: TRANSMISSIONS,
        suspect_to_down_after: options.suspect_for,
        remove_down_after: Some(options.forget_after),
        max_packet_size: NonZeroUsize::new(PACKET_BYTES_MAX).expect("a packet has bytes"),
        notify_down_members: true,
        // The machine around it announces and gossips by itself.
        periodic_announce: None,
        periodic_announce_to_down_members: None,
        periodic_gossip: None,
    }
}

/// Random numbers that are a function of the seed (SplitMix64). They choose whom to probe; nothing
/// rests on their being hard to guess.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl TryRng for Generator {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}
