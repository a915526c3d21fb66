/** A SQLite connection with promises: one statement or transaction at a time, errors as StoreError. */
import sqlite3 from 'sqlite3'
import { storeErrorOf } from './store-error.ts'

export type SqlValue = string | number | null

/** What runs inside a transaction. */
export interface Transaction {
  run(sql: string, values?: readonly SqlValue[]): Promise<void>
  all<Row>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>
  exec(sql: string): Promise<void>
}

export class Connection {
  readonly #database: sqlite3.Database
  /** The end of the queue: the npm package spreads calls over threads, and a transaction must not see another one's statements. */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(
    database: sqlite3.Database,
    readonly path: string,
  ) {
    this.#database = database
  }

  /** Opens or creates the file; `read-only` opens what is there and can never write to it. Throws StoreError. */
  static open(path: string, busyTimeoutMs: number, access: 'read-write' | 'read-only' = 'read-write'): Promise<Connection> {
    const mode = access === 'read-only' ? sqlite3.OPEN_READONLY : sqlite3.OPEN_READWRITE | sqlite3.OPEN_CREATE
    return new Promise((resolve, reject) => {
      const database = new sqlite3.Database(path, mode, (error) => {
        if (error) return reject(storeErrorOf(error, path))
        database.configure('busyTimeout', busyTimeoutMs)
        resolve(new Connection(database, path))
      })
    })
  }

  /** Statements outside of any transaction, such as pragmas. Throws StoreError. */
  direct<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => work(this.#statements))
    this.#last = turn.catch(() => {
      // The caller of `turn` gets the error; the queue goes on.
    })
    return turn.catch((error: unknown) => Promise.reject(storeErrorOf(error, this.path)))
  }

  /** Runs `work` in a transaction that holds the write lock from its start (`IMMEDIATE`), commits, or rolls back what failed. Throws StoreError. */
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN IMMEDIATE', work)
  }

  /** Runs `work` on one consistent snapshot. Throws StoreError. */
  read<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN', work)
  }

  #transaction<T>(begin: string, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.direct(async (statements) => {
      await statements.exec(begin)
      try {
        const result = await work(statements)
        await statements.exec('COMMIT')
        return result
      } catch (error) {
        await statements.exec('ROLLBACK').catch(() => {
          // SQLite itself rolls back after a full disk or an I/O error, and then says that no transaction is active: `error` is what matters.
        })
        throw error
      }
    })
  }

  /** Waits for what is under way and closes the file. Throws StoreError. */
  async close(): Promise<void> {
    await this.#last
    await new Promise<void>((resolve, reject) => {
      this.#database.close((error) => (error ? reject(storeErrorOf(error, this.path)) : resolve()))
    })
  }

  readonly #statements: Transaction = {
    run: (sql, values = []) =>
      new Promise((resolve, reject) => this.#database.run(sql, values, (error) => (error ? reject(error) : resolve()))),
    all: <Row>(sql: string, values: readonly SqlValue[] = []) =>
      new Promise<Row[]>((resolve, reject) =>
        this.#database.all<Row>(sql, values, (error, rows) => (error ? reject(error) : resolve(rows))),
      ),
    exec: (sql) => new Promise((resolve, reject) => this.#database.exec(sql, (error) => (error ? reject(error) : resolve()))),
  }
}
