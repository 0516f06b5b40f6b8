//! Opus in transport streams, as ETSI TS 103 491 describes it and ffmpeg reads it.

use crate::codec::config::opus::parse;

/// Appends the control header of a packet: its prefix, and its size in steps of 255.
pub(super) fn control_header(bytes: usize, target: &mut Vec<u8>) {
    target.extend([0x7f, 0xe0]);
    target.resize(target.len() + bytes / 255, 0xff);
    target.push((bytes % 255) as u8);
}

/// channel_config_code of a `dOps`; `None` if there is no code for it. Codes 1 to 8 are the usual
/// layouts of so many channels.
pub(super) fn channel_code(config: &[u8]) -> Option<u8> {
    let sound = parse(config).ok()?;
    let family = *config.get(10)?;
    let code = u8::try_from(sound.channels).ok().filter(|code| (1..=8).contains(code))?;
    (family <= 1).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_steps() {
        for (bytes, expected) in [(0, &[0][..]), (254, &[254]), (255, &[255, 0]), (600, &[255, 255, 90])] {
            let mut header = Vec::new();
            control_header(bytes, &mut header);
            assert_eq!(header[2..], *expected, "{bytes}");
        }
    }

    #[test]
    fn usual_layouts_have_a_code() {
        let mut config = vec![0, 2, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0];
        assert_eq!(channel_code(&config), Some(2));
        (config[1], config[10]) = (6, 1);
        config.extend([4, 2, 0, 4, 1, 2, 3, 5]);
        assert_eq!(channel_code(&config), Some(6));
        config[10] = 255;
        assert_eq!(channel_code(&config), None);
    }
}
