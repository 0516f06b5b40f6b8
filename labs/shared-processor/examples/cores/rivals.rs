//! The same paths with a thread for each stream, and with tokio.

use crate::paths::{STREAMS, Steps};
use reel_rt::now_ns;
use rustix::thread::{NanosleepRelativeResult, nanosleep, sched_yield};
use rustix::time::Timespec;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

type Path = Box<dyn FnOnce(u64) -> Result<Steps, String>>;

/// Threads, ordinary ones or with SCHED_FIFO (which they inherit from their creator here).
pub(crate) fn threads(path: &str, fifo: u64) -> Result<Path, String> {
    Ok(match path {
        "deadline" if fifo > 0 => Box::new(change_priority),
        "deadline" => Box::new(change_nice),
        "switch" if fifo > 0 => Box::new(move |count| yield_threads(count, fifo)),
        "switch" => Box::new(|count| park_threads(count, 0)),
        "switch-park" => Box::new(move |count| park_threads(count, fifo)),
        "preempt" => Box::new(move |count| wake_thread(count, fifo)),
        "transfer" => Box::new(pipe_transfer),
        "message" => Box::new(move |count| pipe_threads(count, fifo)),
        _ => return Err(format!("threads have no path {path}")),
    })
}

/// tokio's runtime of one thread, its cheapest.
pub(crate) fn tokio(path: &str) -> Result<Path, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    Ok(match path {
        "deadline" => Box::new(move |count| runtime.block_on(yield_tasks(count, 1))),
        "switch" => Box::new(move |count| runtime.block_on(yield_tasks(count, STREAMS))),
        "transfer" => Box::new(move |count| runtime.block_on(channel_transfer(count))),
        "message" => Box::new(move |count| runtime.block_on(channel_tasks(count))),
        _ => return Err(format!("tokio has no path {path}")),
    })
}

/// A new priority for the calling thread, one system call.
fn change_priority(count: u64) -> Result<Steps, String> {
    let begun_ns = now_ns();
    for message in 0..count {
        let parameters = libc::sched_param { sched_priority: 10 + (message % 2) as i32 };
        // SAFETY: 0 means the calling thread; the parameters are read during the call only.
        if unsafe { libc::sched_setparam(0, &parameters) } != 0 {
            return Err("the priority was refused".into());
        }
    }
    Ok(Steps::since(begun_ns, count))
}

/// A new nice value for the calling thread, one system call.
fn change_nice(count: u64) -> Result<Steps, String> {
    let begun_ns = now_ns();
    for message in 0..count {
        // SAFETY: takes and returns integers.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, (message % 2) as i32) } != 0 {
            return Err("the nice value was refused".into());
        }
    }
    Ok(Steps::since(begun_ns, count))
}

/// Two threads of equal priority yield to each other: the cheapest switch a kernel has.
fn yield_threads(count: u64, fifo: u64) -> Result<Steps, String> {
    let turns = Arc::new(AtomicU64::new(0));
    let proceed = move |turns: &AtomicU64, me: u64| {
        while turns.load(Ordering::Relaxed) < count {
            if turns.load(Ordering::Relaxed) % 2 == me {
                turns.fetch_add(1, Ordering::Relaxed);
            }
            sched_yield();
        }
    };
    // A new thread is ordinary at first, and does not run while one with SCHED_FIFO is runnable.
    let (other, both) = (Arc::clone(&turns), Arc::new(Barrier::new(2)));
    let there = Arc::clone(&both);
    let thread = thread::spawn(move || -> Result<(), String> {
        crate::meter::fifo(fifo)?;
        there.wait();
        proceed(&other, 1);
        Ok(())
    });
    both.wait();
    let begun_ns = now_ns();
    proceed(&turns, 0);
    thread.join().map_err(|_| "a thread died")??;
    Ok(Steps::since(begun_ns, count))
}

/// Two threads wake each other and sleep (futexes).
fn park_threads(count: u64, fifo: u64) -> Result<Steps, String> {
    let turns = Arc::new(AtomicU64::new(0));
    let proceed = move |turns: &AtomicU64, me: u64, other: &thread::Thread| {
        while turns.load(Ordering::Acquire) < count {
            if turns.load(Ordering::Acquire) % 2 == me {
                turns.fetch_add(1, Ordering::AcqRel);
                other.unpark();
            } else {
                thread::park();
            }
        }
        other.unpark();
    };
    let (first, others) = (thread::current(), Arc::clone(&turns));
    let both = Arc::new(Barrier::new(2));
    let there = Arc::clone(&both);
    let thread = thread::spawn(move || -> Result<(), String> {
        crate::meter::fifo(fifo)?;
        there.wait();
        proceed(&others, 1, &first);
        Ok(())
    });
    both.wait();
    let begun_ns = now_ns();
    proceed(&turns, 0, thread.thread());
    thread.join().map_err(|_| "a thread died")??;
    Ok(Steps::since(begun_ns, count))
}

/// A thread sleeps until a time while another works. Measured from that time to its first
/// instruction.
fn wake_thread(count: u64, fifo: u64) -> Result<Steps, String> {
    let over = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&over);
    // The working thread is ordinary: SCHED_FIFO is not inherited.
    let busy = thread::spawn(move || while !ending.load(Ordering::Relaxed) {});
    crate::meter::fifo(fifo)?;
    let mut each = Vec::new();
    for _ in 0..count {
        let due_ns = now_ns() + 20_000;
        sleep_until(due_ns);
        each.push(now_ns() - due_ns);
    }
    over.store(true, Ordering::Relaxed);
    busy.join().map_err(|_| "a thread died")?;
    Ok(Steps::median(each))
}

pub(crate) fn sleep_until(due_ns: u64) {
    let wait_ns = due_ns.saturating_sub(now_ns());
    let time = Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as _ };
    while let NanosleepRelativeResult::Interrupted(_) = nanosleep(&time) {}
}

fn pipe_transfer(count: u64) -> Result<Steps, String> {
    let (mut read, mut write) = std::io::pipe().map_err(|error| error.to_string())?;
    let begun_ns = now_ns();
    let mut byte = [0];
    for message in 0..count {
        let sent = write.write_all(&[message as u8]).and_then(|()| read.read_exact(&mut byte));
        sent.map_err(|error| error.to_string())?;
    }
    Ok(Steps::since(begun_ns, count))
}

/// Two threads send one byte back and forth through pipes.
fn pipe_threads(count: u64, fifo: u64) -> Result<Steps, String> {
    let failed = |error: std::io::Error| error.to_string();
    let ((mut here, mut there), (mut back_read, mut back_write)) =
        (std::io::pipe().map_err(failed)?, std::io::pipe().map_err(failed)?);
    let both = Arc::new(Barrier::new(2));
    let there_too = Arc::clone(&both);
    let thread = thread::spawn(move || -> Result<(), String> {
        crate::meter::fifo(fifo)?;
        there_too.wait();
        let mut byte = [0];
        for _ in 0..count / 2 {
            here.read_exact(&mut byte).and_then(|()| back_write.write_all(&byte)).map_err(failed)?;
        }
        Ok(())
    });
    both.wait();
    let begun_ns = now_ns();
    let mut byte = [0];
    for _ in 0..count / 2 {
        there.write_all(&byte).and_then(|()| back_read.read_exact(&mut byte)).map_err(failed)?;
    }
    let steps = Steps::since(begun_ns, count / 2 * 2);
    thread.join().map_err(|_| "a thread died")??;
    Ok(steps)
}

async fn yield_tasks(count: u64, tasks: u64) -> Result<Steps, String> {
    let begun_ns = now_ns();
    let each = count / tasks;
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..each {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in all {
        task.await.map_err(|error| error.to_string())?;
    }
    Ok(Steps::since(begun_ns, each * tasks))
}

async fn channel_transfer(count: u64) -> Result<Steps, String> {
    let (send, mut receive) = tokio::sync::mpsc::channel(64);
    let begun_ns = now_ns();
    for message in 0..count {
        send.send(message as u8).await.map_err(|error| error.to_string())?;
        receive.recv().await.ok_or("closed")?;
    }
    Ok(Steps::since(begun_ns, count))
}

async fn channel_tasks(count: u64) -> Result<Steps, String> {
    let (send, mut there) = tokio::sync::mpsc::channel::<u8>(64);
    let (back, mut receive) = tokio::sync::mpsc::channel::<u8>(64);
    let other = tokio::spawn(async move {
        while let Some(byte) = there.recv().await {
            if back.send(byte).await.is_err() {
                return;
            }
        }
    });
    let begun_ns = now_ns();
    for message in 0..count / 2 {
        send.send(message as u8).await.map_err(|error| error.to_string())?;
        receive.recv().await.ok_or("closed")?;
    }
    let steps = Steps::since(begun_ns, count / 2 * 2);
    drop(send);
    other.await.map_err(|error| error.to_string())?;
    Ok(steps)
}
