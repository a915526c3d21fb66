/**
 * A SQLite connection with promises: one statement or transaction at a time, errors as StoreError.
 */
import { performance } from 'node:perf_hooks'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import sqlite3 from 'sqlite3'
import { createStoreError, StoreError } from './store-error.ts'

export type SqlValue = string | number | null

/** The npm package's own types leave it out. */
interface BackupSource {
  backup(to: string, opened: (error: Error | null) => void): Backup
}
interface Backup {
  readonly completed: boolean
  step(pages: number, done: (error: Error | null) => void): void
  finish(done: () => void): void
}

/** Statements inside a transaction. */
export interface Transaction {
  run(sql: string, values?: readonly SqlValue[]): Promise<void>
  all<Row>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>
  exec(sql: string): Promise<void>
}

/** Delay between attempts while another process holds the lock, ms. Assumed. */
const lockRetryMs = 10

export class Connection {
  readonly #database: sqlite3.Database
  /**
   * Tail of the queue: the npm package runs calls on several threads, and transactions must not
   * interleave.
   */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(
    database: sqlite3.Database,
    readonly path: string,
    private readonly busyTimeoutMs: number,
  ) {
    this.#database = database
  }

  /**
   * Opens or creates the file; `read-only` opens an existing file and never writes; `immutable`
   * reads a file that nobody changes, without locks and auxiliary files.
   * @param shownPath the file's name in errors
   * @throws StoreError
   */
  static open(
    path: string,
    busyTimeoutMs: number,
    access: 'read-write' | 'read-only' | 'immutable' = 'read-write',
    shownPath = path,
  ): Promise<Connection> {
    const mode =
      access === 'read-write' ? sqlite3.OPEN_READWRITE | sqlite3.OPEN_CREATE : sqlite3.OPEN_READONLY
    const name = access === 'immutable' ? `${pathToFileURL(path)}?immutable=1` : path
    return new Promise((resolve, reject) => {
      const database = new sqlite3.Database(
        name,
        access === 'immutable' ? mode | sqlite3.OPEN_URI : mode,
        (error) => {
          if (error) return reject(createStoreError(error, shownPath))
          database.configure('busyTimeout', busyTimeoutMs)
          resolve(new Connection(database, shownPath, busyTimeoutMs))
        },
      )
    })
  }

  /**
   * Enables write-ahead logging with every commit flushed. SQLite does not wait for other writers
   * when it changes the mode, so retry until the busy timeout.
   * @throws StoreError
   */
  async enableWriteAheadLog(): Promise<void> {
    const untilMs = performance.now() + this.busyTimeoutMs
    for (;;) {
      try {
        return await this.runOutsideTransaction((sql) =>
          sql.exec(
            'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1',
          ),
        )
      } catch (error) {
        if (
          !(error instanceof StoreError && error.fault === 'locked') ||
          performance.now() >= untilMs
        )
          throw error
        await setTimeout(lockRetryMs)
      }
    }
  }

  /**
   * Runs statements outside of any transaction, for example pragmas, after the queued work.
   * @throws StoreError
   */
  runOutsideTransaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const queued = this.#last.then(() => work(this.#statements))
    this.#last = queued.catch(() => {
      // The caller of `queued` gets the error; the queue continues.
    })
    return queued.catch((error: unknown) => Promise.reject(createStoreError(error, this.path)))
  }

  /**
   * Runs `work` in a transaction that holds the write lock from its start (`IMMEDIATE`), commits,
   * or rolls back what failed.
   * @throws StoreError
   */
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN IMMEDIATE', work)
  }

  /**
   * Runs `work` on one consistent snapshot.
   * @throws StoreError
   */
  read<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN', work)
  }

  #transaction<T>(begin: string, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.runOutsideTransaction(async (statements) => {
      await statements.exec(begin)
      try {
        const result = await work(statements)
        await statements.exec('COMMIT')
        return result
      } catch (error) {
        await statements.exec('ROLLBACK').catch(() => {
          // After a full disk or an I/O error SQLite rolls back itself, and a further rollback
          // fails: report the original error.
        })
        throw error
      }
    })
  }

  /**
   * Copies the database, as of one moment, into a new file by SQLite's online backup: others may
   * read and write meanwhile.
   * @throws StoreError
   */
  backup(to: string): Promise<void> {
    return this.runOutsideTransaction(
      () =>
        new Promise<void>((resolve, reject) => {
          const backup = (this.#database as unknown as BackupSource).backup(to, (error) => {
            if (error) reject(error)
          })
          backup.step(-1, (error) => {
            const ended =
              !error && !backup.completed
                ? Object.assign(new Error('the copy did not complete'), { code: 'SQLITE_BUSY' })
                : error
            backup.finish(() => (ended ? reject(ended) : resolve()))
          })
        }),
    )
  }

  /**
   * Waits for running statements and closes the file.
   * @throws StoreError
   */
  async close(): Promise<void> {
    await this.#last
    await new Promise<void>((resolve, reject) => {
      this.#database.close((error) =>
        error ? reject(createStoreError(error, this.path)) : resolve(),
      )
    })
  }

  readonly #statements: Transaction = {
    run: (sql, values = []) =>
      new Promise((resolve, reject) =>
        this.#database.run(sql, values, (error) => (error ? reject(error) : resolve())),
      ),
    all: <Row>(sql: string, values: readonly SqlValue[] = []) =>
      new Promise<Row[]>((resolve, reject) =>
        this.#database.all<Row>(sql, values, (error, rows) =>
          error ? reject(error) : resolve(rows),
        ),
      ),
    exec: (sql) =>
      new Promise((resolve, reject) =>
        this.#database.exec(sql, (error) => (error ? reject(error) : resolve())),
      ),
  }
}
