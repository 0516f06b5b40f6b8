//! Chapters of all containers: named places, bounded and sorted.

use super::warnings::Warnings;
use crate::{Chapter, limits};

/// The chapters of one file while they are collected.
#[derive(Debug, Default)]
pub(crate) struct Chapters {
    /// Start in nanoseconds of the presentation, and name.
    list: Vec<(i64, String)>,
    /// There were more than are kept.
    more: bool,
}

impl Chapters {
    /// Adds a chapter. Whether more can be added.
    pub(crate) fn add(&mut self, start_ns: i64, name: &str) -> bool {
        if self.list.len() == limits::OUT_CHAPTERS {
            self.more = true;
            return false;
        }
        let mut name: String = name.chars().filter(|c| !c.is_control()).collect();
        name.truncate(name.floor_char_boundary(limits::OUT_NAME_BYTES));
        self.list.push((start_ns, name.trim().to_owned()));
        true
    }

    /// All chapters by start, moved `earlier_ns` towards zero. Of those that begin before zero, the
    /// last one begins at zero, unless another begins there, and the others are left out.
    pub(crate) fn finish(mut self, earlier_ns: i64, warnings: &mut Warnings) -> Vec<Chapter> {
        if self.more {
            warnings.add(format!(
                "the file has more than {} chapters: the others are left out",
                limits::OUT_CHAPTERS
            ));
        }
        self.list.iter_mut().for_each(|(start_ns, _)| *start_ns = start_ns.saturating_sub(earlier_ns));
        self.list.sort_by_key(|(start_ns, _)| *start_ns);
        let begun = self.list.partition_point(|(start_ns, _)| *start_ns < 0);
        let at_zero = self.list.get(begun).is_some_and(|(start_ns, _)| *start_ns == 0);
        let over = if at_zero { begun } else { begun.saturating_sub(1) };
        let kept = self.list.into_iter().skip(over);
        kept.map(|(start_ns, name)| Chapter { start_ns: u64::try_from(start_ns).unwrap_or(0), name })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(starts: &[i64], earlier_ns: i64) -> Vec<(u64, String)> {
        let mut chapters = Chapters::default();
        for start in starts {
            assert!(chapters.add(*start, &format!(" {start}\n")));
        }
        let list = chapters.finish(earlier_ns, &mut Warnings::default());
        list.into_iter().map(|chapter| (chapter.start_ns, chapter.name)).collect()
    }

    #[test]
    fn chapters_are_sorted_and_begin_at_zero() {
        let named = |list: &[(u64, &str)]| list.iter().map(|(ns, name)| (*ns, (*name).to_owned())).collect();
        let expected: Vec<(u64, String)> = named(&[(0, "20"), (10, "40"), (20, "50")]);
        assert_eq!(finished(&[50, 10, 20, 40], 30), expected);
        let expected: Vec<(u64, String)> = named(&[(0, "30"), (10, "40")]);
        assert_eq!(finished(&[10, 30, 20, 40], 30), expected);
        assert_eq!(finished(&[i64::MIN, i64::MAX], i64::MAX).len(), 1);
        assert_eq!(finished(&[], 0), []);
    }

    #[test]
    fn their_number_and_names_are_bounded() {
        let mut chapters = Chapters::default();
        let name = "\u{e9}".repeat(limits::OUT_NAME_BYTES);
        let added = (0..limits::OUT_CHAPTERS + 5).take_while(|at| chapters.add(*at as i64, &name)).count();
        assert_eq!(added, limits::OUT_CHAPTERS);
        let mut warnings = Warnings::default();
        let list = chapters.finish(0, &mut warnings);
        assert!(list.iter().all(|chapter| chapter.name.len() == limits::OUT_NAME_BYTES));
        assert_eq!((list.len(), warnings.all().len()), (limits::OUT_CHAPTERS, 1));
    }
}
