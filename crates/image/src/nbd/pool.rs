//! The connection pool of an image: one connection for each thread that reads at the same time, if the server
//! allows.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Connection;
use super::libnbd::Failure;

/// The most connections to open to one server.
pub(super) const MOST: usize = 16;

/// Opens one more connection.
pub(super) type Connect = Box<dyn Fn() -> Result<Connection, Failure> + Send + Sync>;

pub(super) struct Pool {
    connect: Connect,
    state: Mutex<PoolState>,
}

struct PoolState {
    connections: Vec<Member>,
    /// How many connections there may be; falls where opening another fails.
    limit: usize,
    /// Threads that are opening one.
    opening: usize,
    /// Where to look first, so that all take turns: one that was lost is then noticed soon.
    next: usize,
}

struct Member {
    connection: Arc<Connection>,
    users: usize,
}

/// A connection lent to a thread.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    index: usize,
    connection: Arc<Connection>,
}

impl Pool {
    /// Keeps the connections that there are, at least one, and opens more up to `limit`.
    pub(super) fn new(connections: Vec<Connection>, limit: usize, connect: Connect) -> Pool {
        let members = connections.into_iter().map(|one| Member { connection: Arc::new(one), users: 0 });
        let state = PoolState { connections: members.collect(), limit, opening: 0, next: 0 };
        Pool { connect, state: Mutex::new(state) }
    }

    /// A connection that nobody uses; a new one if there is none; where there may be no more, the one that
    /// fewest use.
    pub(super) fn lend(&self) -> Lease<'_> {
        let mut state = self.lock();
        let count = state.connections.len();
        let start = state.next;
        let order = (0..count).map(|step| (start + step) % count);
        let least = order.min_by_key(|&index| state.connections[index].users).unwrap_or(0);
        if state.connections[least].users == 0 || count + state.opening >= state.limit {
            return self.lease(&mut state, least);
        }
        state.opening += 1;
        drop(state);
        let opened = (self.connect)();
        let mut state = self.lock();
        state.opening -= 1;
        match opened {
            Ok(connection) => {
                state.connections.push(Member { connection: Arc::new(connection), users: 0 });
                let last = state.connections.len() - 1;
                self.lease(&mut state, last)
            }
            // Fewer connections are slower, not wrong: it is the first that must work.
            Err(_) => {
                state.limit = state.connections.len();
                self.lease(&mut state, least)
            }
        }
    }

    /// All connections that were opened.
    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        self.lock().connections.iter().map(|member| member.connection.clone()).collect()
    }

    fn lease(&self, state: &mut PoolState, index: usize) -> Lease<'_> {
        let member = &mut state.connections[index];
        member.users += 1;
        let connection = member.connection.clone();
        state.next = index + 1;
        Lease { pool: self, index, connection }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Lease<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.lock().connections[self.index].users -= 1;
    }
}
