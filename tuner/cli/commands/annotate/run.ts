/** `tune annotate`: changes the annotations of an experiment or a trial. */
import type { Annotation } from '../../../../trials/annotation.ts'
import { annotate } from '../../../../trials/store/index.ts'
import { createUsageError, exitCodes } from '../../../exit-codes.ts'
import { formatAnnotation } from '../../render/annotation-lines.ts'
import {
  createUnknownExperimentError,
  findNewest,
  openExistingStore,
  requireStore,
} from '../open-existing.ts'

export interface AnnotateFlags {
  readonly db: string
  readonly trial?: string
  readonly note?: string
  readonly tag?: readonly string[]
  readonly untag?: readonly string[]
  readonly archive?: boolean
  readonly restore?: boolean
  readonly json?: boolean
}

/**
 * Returns the exit code.
 * @throws UserError and StoreError
 */
export async function annotateExperiment(
  idOrName: string | undefined,
  flags: AnnotateFlags,
): Promise<number> {
  requireStore(flags.db)
  const { note, tag: addTags, untag: removeTags, archive, restore } = flags
  const trial = parseTrial(flags)
  const archived = archive || restore ? archive === true : undefined
  if ([note, addTags, removeTags, archived].every((one) => one === undefined))
    throw createUsageError(
      'tune annotate: nothing to write',
      'add --note, --tag, --untag, --archive or --restore',
    )
  const id = idOrName ?? (await findNewestId(flags.db))
  const stored = await annotate(
    flags.db,
    { experimentId: id, trial },
    { note, addTags, removeTags, archived },
  )
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ experiment: id, trial, ...stored }, null, 2)}\n`
      : `${formatAnnotated(id, trial, stored)}\n`,
  )
  return exitCodes.ok
}

async function findNewestId(db: string): Promise<string> {
  const store = await openExistingStore(db)
  try {
    const newestFirst = [...(await store.list())].reverse()
    const newest = findNewest(newestFirst)
    if (!newest) throw createUnknownExperimentError(newestFirst, undefined)
    return newest.id
  } finally {
    await store.close()
  }
}

function parseTrial({ trial, archive, restore }: AnnotateFlags): number | undefined {
  if (archive && restore)
    throw createUsageError(
      'tune annotate: --archive and --restore exclude each other',
      'use only one of them',
    )
  if (trial === undefined) return undefined
  if (archive || restore)
    throw createUsageError(
      'tune annotate: a trial cannot be archived',
      'leave --trial out, or tag the trial instead',
    )
  const number = Number(trial)
  if (!(Number.isSafeInteger(number) && number > 0))
    throw createUsageError(`--trial ${trial} is not a trial number`, 'use a number from tune show')
  return number
}

const formatAnnotated = (id: string, trial: number | undefined, kept: Annotation): string =>
  [`${id}${trial === undefined ? '' : `, trial ${trial}`}`, ...formatAnnotation(kept)].join('\n')
