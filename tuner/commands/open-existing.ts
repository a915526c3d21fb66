import { existsSync } from 'node:fs'
import {
  type ListedExperiment,
  openReader,
  openStore,
  type StoreReader,
} from '../../trials/store/index.ts'
import type { ExperimentRecord, FinishedTrial, TrialStore } from '../../trials/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { tellDamage } from '../tell-damage.ts'

/** Throws UserError where there is no store: a mistyped --db must not make an empty one. */
export function existingStore(path: string): void {
  if (existsSync(path)) return
  throw new UserError(
    `no trial store at ${path}`,
    'set the path of the store with --db, or run an experiment first: tune --model bert --slo 50ms',
    exitCodes.usage,
  )
}

/**
 * Opens a store that is already there, to read: nothing is written, whoever writes beside. Damage
 * is named on stderr.
 */
export async function openExisting(path: string): Promise<StoreReader> {
  existingStore(path)
  return openReader(path, tellDamage(path))
}

/** Opens a store, new or there already, to write. Damage is named on stderr. */
export const openToWrite = (path: string): Promise<TrialStore> =>
  openStore(path, { onDamage: tellDamage(path) })

/**
 * The experiment of that id, or the newest that is not put away when no id is given. Throws
 * UserError naming those that are there.
 */
export async function loadExperiment(
  store: Pick<StoreReader, 'list' | 'load'>,
  id: string | undefined,
): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] }> {
  const known = [...(await store.list())].sort((a, b) => b.createdAt.localeCompare(a.createdAt))
  const wanted = id ?? newestOf(known)?.id
  const found = wanted === undefined ? undefined : await store.load(wanted)
  if (found) return found
  throw noSuchExperiment(known, wanted)
}

/** The first that is not put away, else the first. @param known newest first */
export const newestOf = (known: readonly ListedExperiment[]): ListedExperiment | undefined =>
  known.find((one) => one.annotation?.archivedAt === undefined) ?? known[0]

/** The error that names the experiments that are there, newest first. */
export function noSuchExperiment(
  known: readonly ExperimentRecord[],
  wanted: string | undefined,
): UserError {
  const ids = known.slice(0, 5).map((e) => e.id)
  const hint =
    ids.length > 0
      ? `the store has: ${ids.join(', ')}${known.length > 5 ? ', ... (tune list)' : ''}`
      : 'the store is empty'
  return new UserError(
    wanted === undefined
      ? 'the store has no experiments'
      : `no experiment "${wanted}" in the store`,
    hint,
    exitCodes.usage,
  )
}
