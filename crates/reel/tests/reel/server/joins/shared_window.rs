//! The outlets of one session read its title once, through one window of media memory.

use super::{Joining, listener, until};
use reel_join::limits::OUTLETS_MAX;
use serde_json::Value;

/// How often eight outlets are begun, if the first one is cut before the last one is there.
const ATTEMPTS: usize = 20;

/// A server with a destination that takes connections and never reads.
struct Silent {
    joining: Joining,
    listening: std::net::TcpListener,
    to: String,
}

impl Silent {
    /// A session that is played into so many connections, which stand still; `each` is called when
    /// one is added.
    fn play(&self, outlets: usize, mut each: impl FnMut(&str)) {
        let key = self.joining.session("aperiodic");
        let mut connections = Vec::new();
        for _ in 0..outlets {
            assert_eq!(self.joining.add(&key, &self.to).status, 201);
            connections.push(self.listening.accept().expect("accepted"));
            each(&key);
        }
        let closed = self.joining.rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "");
        assert_eq!(closed.status, 204);
        drop(connections);
        self.joining.rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
    }

    /// The outlets of a session that were not cut.
    fn joined(&self, key: &str) -> Vec<Value> {
        let path = format!("GET /api/v1/sessions/{key}/outlets");
        let outlets = self.joining.rig.connect().ask(&path, "").json()["outlets"].clone();
        let outlets = outlets.as_array().expect("a list").iter();
        outlets.filter(|outlet| outlet["state"] == "joined").cloned().collect()
    }

    fn reserved(&self) -> f64 {
        self.joining.rig.metric("reel_buffers_reserved")
    }
}

/// With one outlet that stands still its whole window is reserved. Seven more beside it reserve
/// nothing more, before it is cut for them, and after that.
#[test]
fn eight_outlets_reserve_no_more_memory_than_one() {
    let (listening, to, target) = listener();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listening, 4096).expect("set");
    let joining = Joining::new(|config| config.join.to = vec![target]);
    let silent = Silent { joining, listening, to };
    let mut of_one = 0.0;
    silent.play(1, |key| {
        let (mut before, mut same) = (Vec::new(), 0);
        until("the outlet stands still", || {
            let now = silent.joined(key);
            same = if now == before && now[0]["bytes"].as_u64() > Some(0) { same + 1 } else { 0 };
            (before, of_one) = (now, silent.reserved());
            same == 50
        });
    });
    assert!(of_one > 0.0);
    let mut were_all_there = false;
    for _ in 0..ATTEMPTS {
        silent.play(OUTLETS_MAX, |key| {
            let before = silent.joined(key).len();
            let reserved = silent.reserved();
            let all = [before, silent.joined(key).len()];
            were_all_there |= all == [OUTLETS_MAX; 2] && reserved > 0.0;
            assert!(reserved <= of_one, "{before} outlets reserve {reserved} buffers, and one {of_one}");
        });
        if were_all_there {
            return;
        }
    }
    panic!("eight outlets were never there at once");
}
