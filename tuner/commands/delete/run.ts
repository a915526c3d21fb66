/** `tune delete`: experiments and their trials, for good. */
import { deleteExperiments } from '../../../trials/store/index.ts'
import { exitCodes, UserError, usageError } from '../../exit-codes.ts'
import { asker } from '../../render/asker.ts'
import { counted } from '../../render/columns.ts'
import { noSuchExperiment, openExisting } from '../open-existing.ts'

export interface DeleteFlags {
  readonly db: string
  readonly yes?: boolean
  readonly json?: boolean
}

/** All of them or none. Returns the exit code. @throws UserError and StoreError */
export async function deleteAll(given: readonly string[], flags: DeleteFlags): Promise<number> {
  const ids = [...new Set(given)]
  const trials = await trialsIn(ids, flags.db)
  const what = `${ids.join(', ')} with ${counted(trials, 'trial')}`
  if (!flags.yes && !(await isWanted(what))) {
    process.stderr.write('nothing was deleted\n')
    return exitCodes.failure
  }
  await deleteExperiments(flags.db, ids)
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ deleted: ids, trials }, null, 2)}\n`
      : `deleted ${what}; their logs and result folders remain\n`,
  )
  return exitCodes.ok
}

/** Trials of all of them. @throws UserError for one that is not there. */
async function trialsIn(ids: readonly string[], db: string): Promise<number> {
  const store = await openExisting(db)
  try {
    const known = await store.list()
    const unknown = ids.find((id) => !known.some((one) => one.id === id))
    if (unknown !== undefined) throw noSuchExperiment([...known].reverse(), unknown)
    return known.filter(({ id }) => ids.includes(id)).reduce((sum, { trials }) => sum + trials, 0)
  } finally {
    await store.close()
  }
}

async function isWanted(what: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw usageError('tune delete: cannot ask for confirmation without a terminal', 'add --yes')
  const stop = new AbortController()
  const interrupted = () =>
    stop.abort(new UserError('interrupted: nothing was deleted', undefined, exitCodes.interrupted))
  const { say, close } = asker(true, stop.signal, interrupted)
  try {
    return /^y(es)?$/i.test(await say(`Delete ${what} permanently? [y/N]`))
  } finally {
    close()
  }
}
