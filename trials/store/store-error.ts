/** Errors of the trial store, with hints. */
type StoreFault =
  | 'unknown-experiment'
  | 'duplicate'
  | 'not-kept'
  | 'owned-elsewhere'
  | 'other-version'
  | 'not-a-store'
  | 'no-database'
  | 'corrupt'
  | 'locked'
  | 'read-only'
  | 'disk-full'
  | 'cannot-open'
  | 'closed'
  | 'failed'

/** An error of the store or its file. `hint` names a remedy. */
export class StoreError extends Error {
  constructor(
    readonly fault: StoreFault,
    message: string,
    readonly hint: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.name = 'StoreError'
  }
}

export const createUnknownExperimentError = (id: string): StoreError =>
  new StoreError(
    'unknown-experiment',
    `there is no experiment ${id} in the store`,
    '`tune list --all` lists all experiments',
  )

export const readOnlyHint =
  'grant yourself write permission on the file and its folder (with the -wal and -shm files), or use another file with --db'

export const corruptHint =
  '`tune store check --db FILE` lists the damage; `tune store backup NEW --db FILE` copies everything readable; then continue with --db NEW'

/** For a damaged file without readable rows. */
export const createUnreadableError = (path: string): StoreError =>
  new StoreError(
    'corrupt',
    `${path} is damaged or not a trial store: none of its rows can be read`,
    'check the path, restore a backup, or use another file with --db',
  )

const faults: Readonly<Record<string, { fault: StoreFault; what: string; hint: string }>> = {
  SQLITE_BUSY: {
    fault: 'locked',
    what: 'is locked by another process',
    hint: 'wait until the other process has finished writing, or use another file with --db',
  },
  SQLITE_LOCKED: {
    fault: 'locked',
    what: 'is locked',
    hint: 'wait until the other process has finished writing, or use another file with --db',
  },
  SQLITE_READONLY: {
    fault: 'read-only',
    what: 'cannot be written',
    hint: readOnlyHint,
  },
  SQLITE_FULL: {
    fault: 'disk-full',
    what: 'cannot grow: the disk is full',
    hint: 'free some space, then resume the experiment: finished trials are safe',
  },
  SQLITE_CORRUPT: {
    fault: 'corrupt',
    what: 'is damaged',
    hint: corruptHint,
  },
  SQLITE_NOTADB: {
    fault: 'no-database',
    what: 'is not a SQLite database, or its header is damaged',
    hint: 'check the path, or use another file with --db; tune store backup NEW --db FILE copies what can be read of a damaged store',
  },
  SQLITE_CANTOPEN: {
    fault: 'cannot-open',
    what: 'cannot be opened',
    hint: 'check that its folder exists and that you may write there, or use another file with --db',
  },
  // SQLite's errors for damaged definitions or values.
  ...Object.fromEntries(
    ['SQLITE_ERROR', 'SQLITE_CONSTRAINT', 'SQLITE_MISMATCH', 'SQLITE_FORMAT', 'SQLITE_TOOBIG'].map(
      (code) => [code, { fault: 'corrupt', what: 'cannot be used', hint: corruptHint } as const],
    ),
  ),
  SQLITE_MISUSE: { fault: 'closed', what: 'is already closed', hint: 'open the store again' },
}

/**
 * Converts a SQLite error about the file at `path` into a StoreError; other errors are returned
 * unchanged.
 */
export function createStoreError(error: unknown, path: string): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  const code = (error as Error & { code?: string }).code ?? ''
  // A full disk while SQLite creates its shared-memory file is an I/O error without a specific
  // code.
  const knownFault =
    faults[code] ??
    (code === 'SQLITE_IOERR' ? ioError : code.startsWith('SQLITE_') ? otherFault : undefined)
  if (!knownFault) return error
  return new StoreError(
    knownFault.fault,
    `the trial store ${path} ${knownFault.what} (${error.message})`,
    knownFault.hint,
    { cause: error },
  )
}

const otherFault = {
  fault: 'failed',
  what: 'cannot be used',
  hint: 'try again, or use another file with --db',
} as const

const ioError = {
  fault: 'disk-full',
  what: 'cannot be written: the disk is full or failing',
  hint: 'free some space, or use a file on another disk with --db; finished trials are safe, and the experiment can be resumed',
} as const
