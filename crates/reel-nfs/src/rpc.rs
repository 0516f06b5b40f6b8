//! Calls and replies of ONC RPC, version 2 (RFC 5531).

use crate::record::mark;
use crate::xdr::{Cursor, Garbage};
use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, accepted_reply, auth_flavor, auth_stat, msg_body, msg_type, opaque_auth,
    rejected_reply, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::Pack;

/// Longest credentials and longest verifier (RFC 5531, section 8.2).
const AUTH_BYTES_MAX: usize = 400;
/// Longest name of a client's machine (RFC 5531, appendix A).
const MACHINE_BYTES_MAX: usize = 255;
/// Most groups that credentials name beside that of the user (RFC 5531, appendix A).
const GROUPS_MAX: u32 = 16;

/// Stands for a client that does not say who its user is.
pub(crate) const NO_USER: u32 = u32::MAX;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The number of the call, which its reply repeats.
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    /// The user that the client claims; [`NO_USER`] if it claims none.
    pub(crate) user: u32,
    pub(crate) arguments: Cursor<'a>,
}

/// What a client has sent.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    Call(Call<'a>),
    /// A call that is not answered by any procedure, with the reply.
    Denied(Vec<u8>),
}

/// Reads a record.
///
/// # Errors
/// [`Garbage`] if it is no call, or ends before its procedure. There is no reply to that.
pub(crate) fn hear(record: &[u8]) -> Result<Heard<'_>, Garbage> {
    let mut cursor = Cursor::new(record);
    let xid = cursor.u32()?;
    if cursor.u32()? != msg_type::CALL as u32 {
        return Err(Garbage);
    }
    if cursor.u32()? != RPC_VERSION_2 {
        let only = rejected_reply::rpc_mismatch(RPC_VERSION_2, RPC_VERSION_2);
        return Ok(Heard::Denied(message(xid, reply_body::MSG_DENIED(only))));
    }
    let (program, version, procedure) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    match authenticate(&mut cursor) {
        Ok(user) => Ok(Heard::Call(Call { xid, program, version, procedure, user, arguments: cursor })),
        Err(why) => {
            let denied = rejected_reply::auth_error(why);
            Ok(Heard::Denied(message(xid, reply_body::MSG_DENIED(denied))))
        }
    }
}

/// The user that a call claims to be of. Its arguments follow.
///
/// # Errors
/// What is wrong with its credentials or its verifier (RFC 5531, section 9). It is a call all the
/// same, with a number and an end, so its client is told, and the connection continues.
fn authenticate(cursor: &mut Cursor<'_>) -> Result<u32, auth_stat> {
    let (flavor, credentials) = read_opaque(cursor).map_err(|_| auth_stat::AUTH_BADCRED)?;
    let user = match flavor {
        flavor if flavor == auth_flavor::AUTH_NULL as u32 => NO_USER,
        flavor if flavor == auth_flavor::AUTH_UNIX as u32 => {
            read_credentials(credentials).map_err(|_| auth_stat::AUTH_BADCRED)?
        }
        // None is too weak: those that are not known here are stronger.
        _ => return Err(auth_stat::AUTH_REJECTEDCRED),
    };
    match read_opaque(cursor) {
        Ok((flavor, _)) if flavor == auth_flavor::AUTH_NULL as u32 => Ok(user),
        // Both kinds of credentials come with a verifier of no flavor (appendix A).
        Ok(_) | Err(Garbage) => Err(auth_stat::AUTH_BADVERF),
    }
}

/// The flavor and the body of credentials or of a verifier.
fn read_opaque<'a>(cursor: &mut Cursor<'a>) -> Result<(u32, &'a [u8]), Garbage> {
    Ok((cursor.u32()?, cursor.opaque(AUTH_BYTES_MAX)?))
}

/// The user in credentials of AUTH_SYS (RFC 5531, appendix A). It is a claim that nothing proves.
/// Titles are for all users, so it only tells the readers of one machine apart.
fn read_credentials(credentials: &[u8]) -> Result<u32, Garbage> {
    let mut cursor = Cursor::new(credentials);
    let _stamp = cursor.u32()?;
    let _machine = cursor.opaque(MACHINE_BYTES_MAX)?;
    let user = cursor.u32()?;
    let (_group, groups) = (cursor.u32()?, cursor.u32()?);
    if groups > GROUPS_MAX {
        return Err(Garbage);
    }
    for _ in 0..groups {
        cursor.u32()?;
    }
    Ok(user)
}

/// A reply in which a procedure has succeeded, up to its result.
pub(crate) fn success(xid: u32) -> Vec<u8> {
    accepted(xid, accept_stat_data::SUCCESS)
}

/// A reply to a call that was not performed.
pub(crate) fn accepted(xid: u32, reply_data: accept_stat_data) -> Vec<u8> {
    let verf = opaque_auth::default();
    message(xid, reply_body::MSG_ACCEPTED(accepted_reply { verf, reply_data }))
}

/// Adds a value to a reply.
pub(crate) fn add(reply: &mut Vec<u8>, value: &impl Pack) {
    // What is packed is bounded, and memory takes all of it.
    let packed = value.pack(reply);
    debug_assert!(packed.is_ok(), "a reply that cannot be packed");
}

/// The record of a reply of which so many bytes follow.
pub(crate) fn record(reply: &[u8], more_bytes: u32) -> Vec<u8> {
    // The cast fits: a reply is shorter than a page of a directory or a read.
    [&mark(reply.len() as u32 + more_bytes)[..], reply].concat()
}

fn message(xid: u32, body: reply_body<'_>) -> Vec<u8> {
    let mut reply = Vec::with_capacity(256);
    add(&mut reply, &rpc_msg { xid, body: msg_body::REPLY(body) });
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_call_has_its_arguments() {
        // A machine called "abc", user 1000, group 100, no other groups.
        let credentials = [0, 3, 0x6162_6300, 1000, 100, 0];
        let mut call = vec![5, 0, 2, 100_003, 3, 6, 1, 24];
        call.extend(credentials);
        call.extend([0, 0, 77]);
        let record = words(&call);
        let Ok(Heard::Call(mut call)) = hear(&record) else { panic!("a call") };
        assert_eq!((call.xid, call.program, call.version, call.procedure), (5, 100_003, 3, 6));
        assert_eq!(call.user, 1000);
        assert_eq!(call.arguments.u32(), Ok(77));
    }

    /// What a call is denied with, behind its number.
    fn denied(call: &[u32]) -> Vec<u8> {
        match hear(&words(call)) {
            Ok(Heard::Denied(reply)) => reply,
            other => panic!("{call:?}: {other:?}"),
        }
    }

    /// A call with these credentials and this verifier: each a flavor, a length and a body.
    fn call_with(credentials: &[u32], verifier: &[u32]) -> Vec<u32> {
        [&[5, 0, 2, 100_003, 3, 0][..], credentials, verifier].concat()
    }

    /// Credentials of AUTH_SYS with so many groups, of which `there` are there.
    fn in_groups(groups: u32, there: usize) -> Vec<u32> {
        let body = [&[0, 3, 0x6162_6300, 1000, 100, groups][..], &vec![7; there]].concat();
        [&[1, 4 * body.len() as u32][..], &body].concat()
    }

    const NO_VERIFIER: [u32; 2] = [0, 0];

    #[test]
    fn other_versions_are_denied() {
        assert_eq!(denied(&[5, 0, 3, 100_003, 3, 0, 0, 0, 0, 0]), words(&[5, 1, 1, 0, 2, 2]));
    }

    #[test]
    fn credentials_that_are_broken_are_denied_with_what_is_wrong() {
        let bad_credentials = words(&[5, 1, 1, 1, 1]);
        let rejected = words(&[5, 1, 1, 1, 2]);
        let bad_verifier = words(&[5, 1, 1, 1, 3]);
        let whole = in_groups(16, 16);
        assert!(matches!(hear(&words(&call_with(&whole, &NO_VERIFIER))), Ok(Heard::Call(_))));
        // Longer than the record, and than credentials are; nothing at all; cut anywhere.
        for credentials in [&[1, 401][..], &[1, u32::MAX], &[0, 400], &[1], &[]] {
            assert_eq!(denied(&call_with(credentials, &[])), bad_credentials, "{credentials:?}");
        }
        let long = [&[1, 404][..], &[0; 101]].concat();
        assert_eq!(denied(&call_with(&long, &NO_VERIFIER)), bad_credentials);
        for words in 0..whole.len() - 2 {
            let cut = [&[1, 4 * words as u32][..], &whole[2..][..words]].concat();
            assert_eq!(denied(&call_with(&cut, &NO_VERIFIER)), bad_credentials, "{words} words");
        }
        // More groups than there may be, or than are there; a longer name of the machine.
        for credentials in [in_groups(17, 17), in_groups(u32::MAX, 2), in_groups(3, 2)] {
            assert_eq!(denied(&call_with(&credentials, &NO_VERIFIER)), bad_credentials, "{credentials:?}");
        }
        let machine = [&[1, 4 * 69, 0, 256][..], &[0; 64], &[1000, 100, 0]].concat();
        assert_eq!(denied(&call_with(&machine, &NO_VERIFIER)), bad_credentials);
        // AUTH_SHORT, RPCSEC_GSS, AUTH_TLS.
        for flavor in [2, 6, 7, u32::MAX] {
            assert_eq!(denied(&call_with(&[flavor, 0], &NO_VERIFIER)), rejected, "{flavor}");
        }
        for verifier in [&[][..], &[0], &[0, 4], &[0, 401], &[1, 0], &[6, 4, 9]] {
            assert_eq!(denied(&call_with(&whole, verifier)), bad_verifier, "{verifier:?}");
            assert_eq!(denied(&call_with(&[0, 0], verifier)), bad_verifier, "{verifier:?}");
        }
    }

    #[test]
    fn what_is_no_call_is_garbage() {
        for message in [&[][..], &[5], &[5, 1, 0], &[5, 0, 2, 100_003, 3], &[5, 2, 2, 1, 1, 1, 0, 0, 0, 0]] {
            assert_eq!(hear(&words(message)).err(), Some(Garbage), "{message:?}");
        }
    }

    #[test]
    fn a_success_is_followed_by_its_result() {
        let mut reply = success(9);
        add(&mut reply, &3_u32);
        assert_eq!(reply, words(&[9, 1, 0, 0, 0, 0, 3]));
        assert_eq!(record(&reply, 5)[..4], (0x8000_0000 + 28 + 5_u32).to_be_bytes());
    }
}
