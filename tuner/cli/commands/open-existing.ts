import { existsSync } from 'node:fs'
import {
  type ListedExperiment,
  openReader,
  openStore,
  type StoreReader,
} from '../../../trials/store/index.ts'
import type { ExperimentRecord, FinishedTrial, TrialStore } from '../../../trials/types.ts'
import { createDamageReporter } from '../../damage-reporter.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'

/** @throws UserError without a store, so that a mistyped --db does not create an empty one */
export function requireStore(path: string): void {
  if (existsSync(path)) return
  throw new UserError(
    `no trial store at ${path}`,
    'set the path of the store with --db, or run an experiment first: tune --model bert --slo 50ms',
    exitCodes.usage,
  )
}

/** Opens an existing store read-only, also while others write to it. Prints damage on stderr. */
export async function openExistingStore(path: string): Promise<StoreReader> {
  requireStore(path)
  return openReader(path, createDamageReporter(path))
}

/** Opens a new or existing store for writing. Prints damage on stderr. */
export const openWritableStore = (path: string): Promise<TrialStore> =>
  openStore(path, { onDamage: createDamageReporter(path) })

/**
 * Finds the experiment of an id; default: the newest that is not archived.
 * @throws UserError with the known ids
 */
export async function findExperiment(
  store: Pick<StoreReader, 'list' | 'load'>,
  id: string | undefined,
): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] }> {
  const newestFirst = [...(await store.list())].sort((a, b) =>
    b.createdAt.localeCompare(a.createdAt),
  )
  const experimentId = id ?? findNewest(newestFirst)?.id
  const stored = experimentId === undefined ? undefined : await store.load(experimentId)
  if (stored) return stored
  throw createUnknownExperimentError(newestFirst, experimentId)
}

/**
 * Finds the first that is not archived, or else the first.
 * @param records newest first
 */
export const findNewest = (
  experiments: readonly ListedExperiment[],
): ListedExperiment | undefined =>
  experiments.find((one) => one.annotation?.archivedAt === undefined) ?? experiments[0]

/**
 * Creates the error for an unknown experiment, with the known ids.
 * @param records newest first
 */
export function createUnknownExperimentError(
  records: readonly ExperimentRecord[],
  requestedId: string | undefined,
): UserError {
  const ids = records.slice(0, 5).map((e) => e.id)
  const hint =
    ids.length > 0
      ? `the store has: ${ids.join(', ')}${records.length > 5 ? ', ... (tune list)' : ''}`
      : 'the store is empty'
  return new UserError(
    requestedId === undefined
      ? 'the store has no experiments'
      : `no experiment "${requestedId}" in the store`,
    hint,
    exitCodes.usage,
  )
}
