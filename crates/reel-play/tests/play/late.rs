//! Whose data was late.

use crate::clip::{Clip, SEGMENT_NS};
use crate::engine::{SEGMENT, segment, sessions, with};
use crate::front_end::FrontEnd;
use reel_play::LateViewer;
use reel_qos::Class;

/// Far beyond every deadline of a segment.
const LONG_NS: u64 = 60_000_000_000;

#[test]
fn late_data_is_noted_with_its_viewer() {
    let (fixture, units) = with(8 << 20, None);
    let clip = Clip::of(&fixture, 0, SEGMENT);
    let mut front = FrontEnd::new(&units, &sessions());
    let session = front.open(&clip);
    for number in 1..=2 {
        front.request(1, &session, &segment(number));
        front.play(1);
        front.now_ns += SEGMENT_NS;
    }
    assert_eq!(front.counters.late.list(), [], "what comes in time is not noted");

    front.request(1, &session, &segment(3));
    front.pump(1);
    let asked_ns = front.now_ns;
    front.now_ns += LONG_NS;
    let came_ns = front.now_ns;
    front.play(1);
    let noted = front.counters.late.list();
    let [late] = &noted[..] else { panic!("{noted:?}") };
    let LateViewer { session: key, title_id, client, class, at_ns, units, by_ns } = late;
    assert_eq!(
        (*key, title_id.as_str(), client.to_string()),
        (session.key(), "clip", "127.0.0.1".to_owned())
    );
    assert_eq!((*class, *at_ns), (Class::PERIODIC, came_ns));
    assert!(*units > 1, "{units} units of one moment are one entry");
    let due_ns = came_ns - by_ns;
    assert!((asked_ns..came_ns).contains(&due_ns), "it was due at {due_ns}, and requested at {asked_ns}");
}
