/** `tune delete`: deletes experiments and their trials permanently. */
import { deleteExperiments } from '../../../../trials/store/index.ts'
import { createUsageError, exitCodes, UserError } from '../../../exit-codes.ts'
import { formatCount } from '../../render/columns.ts'
import { createPrompt } from '../../render/prompt.ts'
import { createUnknownExperimentError, openExistingStore } from '../open-existing.ts'

export interface DeleteFlags {
  readonly db: string
  readonly yes?: boolean
  readonly json?: boolean
}

/**
 * All of them or none.
 * @returns the exit code
 * @throws UserError and StoreError
 */
export async function deleteNamed(
  idsOrNames: readonly string[],
  flags: DeleteFlags,
): Promise<number> {
  const ids = [...new Set(idsOrNames)]
  const trials = await countStoredTrials(ids, flags.db)
  const what = `${ids.join(', ')} with ${formatCount(trials, 'trial')}`
  if (!flags.yes && !(await confirmDeletion(what))) {
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

/**
 * Total number of their trials.
 * @throws UserError for an unknown experiment
 */
async function countStoredTrials(ids: readonly string[], db: string): Promise<number> {
  const store = await openExistingStore(db)
  try {
    const experiments = await store.list()
    const unknown = ids.find((id) => !experiments.some((one) => one.id === id))
    if (unknown !== undefined)
      throw createUnknownExperimentError([...experiments].reverse(), unknown)
    return experiments
      .filter(({ id }) => ids.includes(id))
      .reduce((sum, { trials }) => sum + trials, 0)
  } finally {
    await store.close()
  }
}

async function confirmDeletion(what: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw createUsageError(
      'tune delete: cannot ask for confirmation without a terminal',
      'add --yes',
    )
  const stop = new AbortController()
  const interrupted = () =>
    stop.abort(new UserError('interrupted: nothing was deleted', undefined, exitCodes.interrupted))
  const { say, close } = createPrompt(true, stop.signal, interrupted)
  try {
    return /^y(es)?$/i.test(await say(`Delete ${what} permanently? [y/N]`))
  } finally {
    close()
  }
}
