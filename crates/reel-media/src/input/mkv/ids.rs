//! Element ids of Matroska (RFC 9559 section 5) that this reader uses.

pub(crate) const EBML: u32 = 0x1a45_dfa3;
pub(crate) const DOC_TYPE: u32 = 0x4282;
pub(crate) const SEGMENT: u32 = 0x1853_8067;
pub(crate) const VOID: u32 = 0xec;

pub(crate) const INFO: u32 = 0x1549_a966;
pub(crate) const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;

pub(crate) const SEEK_HEAD: u32 = 0x114d_9b74;
pub(crate) const SEEK: u32 = 0x4dbb;
pub(crate) const SEEK_ID: u32 = 0x53ab;
pub(crate) const SEEK_POSITION: u32 = 0x53ac;

pub(crate) const CHAPTERS: u32 = 0x1043_a770;
pub(crate) const EDITION_ENTRY: u32 = 0x45b9;
pub(crate) const EDITION_FLAG_HIDDEN: u32 = 0x45bd;
pub(crate) const EDITION_FLAG_DEFAULT: u32 = 0x45db;
pub(crate) const CHAPTER_ATOM: u32 = 0xb6;
pub(crate) const CHAPTER_TIME_START: u32 = 0x91;
pub(crate) const CHAPTER_FLAG_HIDDEN: u32 = 0x98;
pub(crate) const CHAPTER_FLAG_ENABLED: u32 = 0x4598;
pub(crate) const CHAPTER_SEGMENT_UUID: u32 = 0x6e67;
pub(crate) const CHAPTER_DISPLAY: u32 = 0x80;
pub(crate) const CHAP_STRING: u32 = 0x85;

pub(crate) const ATTACHMENTS: u32 = 0x1941_a469;
pub(crate) const ATTACHED_FILE: u32 = 0x61a7;
pub(crate) const FILE_NAME: u32 = 0x466e;
pub(crate) const FILE_DATA: u32 = 0x465c;

pub(crate) const CLUSTER: u32 = 0x1f43_b675;
pub(crate) const TIMESTAMP: u32 = 0xe7;
pub(crate) const SIMPLE_BLOCK: u32 = 0xa3;
pub(crate) const BLOCK_GROUP: u32 = 0xa0;
pub(crate) const BLOCK: u32 = 0xa1;
pub(crate) const BLOCK_DURATION: u32 = 0x9b;
pub(crate) const REFERENCE_BLOCK: u32 = 0xfb;
pub(crate) const DISCARD_PADDING: u32 = 0x75a2;

pub(crate) const TRACKS: u32 = 0x1654_ae6b;
pub(crate) const TRACK_ENTRY: u32 = 0xae;
pub(crate) const TRACK_NUMBER: u32 = 0xd7;
pub(crate) const TRACK_TYPE: u32 = 0x83;
pub(crate) const FLAG_DEFAULT: u32 = 0x88;
pub(crate) const FLAG_FORCED: u32 = 0x55aa;
pub(crate) const DEFAULT_DURATION: u32 = 0x23_e383;
pub(crate) const NAME: u32 = 0x536e;
pub(crate) const LANGUAGE: u32 = 0x22_b59c;
pub(crate) const LANGUAGE_BCP47: u32 = 0x22_b59d;
pub(crate) const CODEC_ID: u32 = 0x86;
pub(crate) const CODEC_PRIVATE: u32 = 0x63a2;
pub(crate) const CODEC_DELAY: u32 = 0x56aa;

pub(crate) const BLOCK_ADDITION_MAPPING: u32 = 0x41e4;
pub(crate) const BLOCK_ADD_ID_TYPE: u32 = 0x41e7;
pub(crate) const BLOCK_ADD_ID_EXTRA_DATA: u32 = 0x41ed;

pub(crate) const VIDEO: u32 = 0xe0;
pub(crate) const PIXEL_WIDTH: u32 = 0xb0;
pub(crate) const PIXEL_HEIGHT: u32 = 0xba;
pub(crate) const PIXEL_CROP_BOTTOM: u32 = 0x54aa;
pub(crate) const PIXEL_CROP_TOP: u32 = 0x54bb;
pub(crate) const PIXEL_CROP_LEFT: u32 = 0x54cc;
pub(crate) const PIXEL_CROP_RIGHT: u32 = 0x54dd;
pub(crate) const DISPLAY_WIDTH: u32 = 0x54b0;
pub(crate) const DISPLAY_HEIGHT: u32 = 0x54ba;
pub(crate) const DISPLAY_UNIT: u32 = 0x54b2;
pub(crate) const COLOUR: u32 = 0x55b0;
pub(crate) const MATRIX_COEFFICIENTS: u32 = 0x55b1;
pub(crate) const RANGE: u32 = 0x55b9;
pub(crate) const TRANSFER: u32 = 0x55ba;
pub(crate) const PRIMARIES: u32 = 0x55bb;
pub(crate) const MAX_CLL: u32 = 0x55bc;
pub(crate) const MAX_FALL: u32 = 0x55bd;
pub(crate) const MASTERING_METADATA: u32 = 0x55d0;
/// The first of eight: x and y of red, green, blue and the white point.
pub(crate) const PRIMARY_RED_X: u32 = 0x55d1;
pub(crate) const LUMINANCE_MAX: u32 = 0x55d9;
pub(crate) const LUMINANCE_MIN: u32 = 0x55da;
pub(crate) const PROJECTION: u32 = 0x7670;
pub(crate) const PROJECTION_ROLL: u32 = 0x7675;

pub(crate) const AUDIO: u32 = 0xe1;
pub(crate) const SAMPLING_FREQUENCY: u32 = 0xb5;
pub(crate) const OUTPUT_SAMPLING_FREQUENCY: u32 = 0x78b5;
pub(crate) const CHANNELS: u32 = 0x9f;
pub(crate) const BIT_DEPTH: u32 = 0x6264;

pub(crate) const CONTENT_ENCODINGS: u32 = 0x6d80;
pub(crate) const CONTENT_ENCODING: u32 = 0x6240;
pub(crate) const CONTENT_ENCODING_SCOPE: u32 = 0x5032;
pub(crate) const CONTENT_ENCODING_TYPE: u32 = 0x5033;
pub(crate) const CONTENT_COMPRESSION: u32 = 0x5034;
pub(crate) const CONTENT_COMPRESSION_ALGORITHM: u32 = 0x4254;
pub(crate) const CONTENT_COMPRESSION_SETTINGS: u32 = 0x4255;
pub(crate) const CONTENT_ENCRYPTION: u32 = 0x5035;
pub(crate) const CONTENT_ENCRYPTION_ALGORITHM: u32 = 0x47e1;
