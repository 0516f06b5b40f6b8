//! Limits on what peers may claim and on what the decoder keeps, and tuning of when the decoder
//! acts, each with its reason.

// ---- Limits

/// Payload of an RTP packet that the decoder keeps, and parity of a FEC packet: what an Ethernet
/// frame of 1500 bytes holds beside the headers of IPv4, UDP and RTP (20, 8 and 12 bytes).
pub const PAYLOAD_BYTES_MAX: usize = 1460;
/// Columns (L) and rows (D) of a FEC matrix: the fields of the FEC header have 8 bits, and RFC 6015
/// has the same bound.
pub const MATRIX_SIDE_MAX: u16 = 255;
/// Packets of a FEC matrix (L x D). ST 2022-1 allows 100, and the default volume has 128. A window
/// for this many packets takes at most 6 MB.
pub const MATRIX_PACKETS_MAX: u16 = 1024;
/// Columns (L) of ST 2022-1.
pub const CONFORMING_COLUMNS_MAX: u16 = 20;
/// Fewest rows (D) of ST 2022-1.
pub const CONFORMING_ROWS_MIN: u16 = 4;
/// Rows (D) of ST 2022-1.
pub const CONFORMING_ROWS_MAX: u16 = 20;
/// Packets of a matrix (L x D) of ST 2022-1.
pub const CONFORMING_PACKETS_MAX: u16 = 100;
/// Bytes of a compound RTCP packet. Reel's have about 100; a longer one than an Ethernet frame
/// would be fragmented.
pub const RTCP_BYTES_MAX: usize = 1500;
/// Bytes of a CNAME: its length has 8 bits (RFC 3550, section 6.5).
pub const CNAME_BYTES_MAX: usize = 255;
/// Bytes of a session name in SDP. An announcement has to fit in a packet.
pub const SESSION_NAME_BYTES_MAX: usize = 255;
/// Bytes of a description (SDP) that is read. Reel's have about 500.
pub const SDP_BYTES_MAX: usize = 64 << 10;
/// Lines of a description that is read.
pub const SDP_LINES_MAX: usize = 2048;
/// Media (`m=`) of a description that is read: a cast of 64 channels, each with FEC.
pub const SDP_MEDIA_MAX: usize = 128;
/// Senders that a description names for one group. A receiver joins the group for each of them.
pub const SDP_SOURCES_MAX: usize = 8;
/// Bytes of an announcement (SAP) that is sent. RFC 2974, section 6, wants descriptions of at most
/// 1 KB, and a datagram that no tunnel has to fragment has about 1400 bytes: fragments are dropped
/// by many switches and firewalls.
pub const SAP_BYTES_MAX: usize = 1400;
/// Bytes of an announcement (SAP) that is read. Longer ones than an Ethernet frame come in
/// fragments; few senders have such.
pub const SAP_READ_BYTES_MAX: usize = 2000;
/// Bytes in which the type of an announced description ends: `application/sdp` has 15.
pub const SAP_TYPE_BYTES_MAX: usize = 64;
/// The number of matrices that the decoder's window holds at least. FEC of a matrix is sent during
/// the next one, and the third leaves time for packets that arrive out of order.
pub const WINDOW_MATRICES: u64 = 3;
/// Packets of the smallest window. Fewer would be passed by one train of packets.
pub const WINDOW_PACKETS_MIN: u64 = 128;

/// Segments of a broadcast in a description: as many as a schedule may have.
pub const SDP_SEGMENTS_MAX: usize = 4096;
/// Packets of RTP of a title in a description, with what fills its last matrix: a day at
/// 100 Mb/s. A receiver has a bit for each.
pub const SDP_SYMBOLS_MAX: u64 = 1 << 30;
/// The shortest slot of a broadcast: 4096 of them last seven minutes. Receivers join and leave with
/// slots, which takes some hundredths of a second.
pub const SDP_SLOT_NS_MIN: u64 = 100_000_000;
/// The longest slot of a broadcast: 6 h. Time stamps begin again after 13 hours, so a longer one
/// could not be told from the next one.
pub const SDP_SLOT_NS_MAX: u64 = 6 * 3600 * 1_000_000_000;

// ---- Tuning

/// Packets of a new source in a row, none of the source that is followed among them, after which
/// the decoder follows the new source. A sender that restarts costs this many packets. Two senders
/// on one group send trains of up to about 10 packets in turn, which changes nothing.
pub const SOURCE_PACKETS: u32 = 16;
/// How far the time stamp of a repaired packet may be from those of the packets around it: 5 s at
/// 90 kHz. Packets that follow each other are sent within a fraction of a second. Of random time
/// stamps, one in 4,700 is so near.
pub const TIME_STAMP_STEP_MAX: u32 = 450_000;
