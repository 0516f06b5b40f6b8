//! The numbers by which the kernel knows files and directories.

use crate::node::Node;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of the root (`FUSE_ROOT_ID`).
const ROOT: u64 = 1;

/// What the kernel knows, and how often it was told so. A number is a digest of what it stands for
/// with a secret of this mount, so it is the same in a listing and when a name is looked up, and no
/// name can be chosen that has the number of another.
#[derive(Default)]
pub(crate) struct Nodes {
    digest: RandomState,
    known: Mutex<HashMap<u64, Known>>,
}

struct Known {
    node: Node,
    times: u64,
}

impl Nodes {
    /// The number of a file or directory.
    pub(crate) fn number(&self, node: &Node) -> u64 {
        match node {
            Node::Root => ROOT,
            // Never 0 and never that of the root; positive for programs that take it as signed.
            other => self.digest.hash_one(other) >> 2 | 1 << 62,
        }
    }

    /// Counts that the kernel is told a number. `None` if another node has it, which happens by
    /// chance to one of a million mounts with a million names.
    pub(crate) fn told(&self, node: &Node) -> Option<u64> {
        let number = self.number(node);
        match self.known().entry(number) {
            Entry::Vacant(place) => drop(place.insert(Known { node: node.clone(), times: 1 })),
            Entry::Occupied(mut known) if known.get().node == *node => known.get_mut().times += 1,
            Entry::Occupied(_) => return None,
        }
        Some(number)
    }

    /// What a number stands for.
    pub(crate) fn node(&self, number: u64) -> Option<Node> {
        match number {
            ROOT => Some(Node::Root),
            other => self.known().get(&other).map(|known| known.node.clone()),
        }
    }

    /// Counts that the kernel forgets what it was told so many times.
    pub(crate) fn forgotten(&self, number: u64, times: u64) {
        if let Entry::Occupied(mut known) = self.known().entry(number) {
            let left = known.get().times.saturating_sub(times);
            known.get_mut().times = left;
            if left == 0 {
                known.remove();
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Group;

    #[test]
    fn a_number_is_known_until_it_is_forgotten_as_often_as_it_was_told() {
        let nodes = Nodes::default();
        let node = Node::Thing(Group::Titles, "a".into());
        let number = nodes.number(&node);
        assert_eq!((nodes.node(1), nodes.node(number)), (Some(Node::Root), None));
        assert_eq!((nodes.told(&node), nodes.told(&node)), (Some(number), Some(number)));
        nodes.forgotten(number, 1);
        assert_eq!(nodes.node(number), Some(node.clone()));
        nodes.forgotten(number, 5);
        assert_eq!(nodes.node(number), None);
        assert!(nodes.known().is_empty());
        nodes.forgotten(1, 1);
        assert_eq!(nodes.node(1), Some(Node::Root));
    }
}
