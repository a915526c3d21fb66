/** `tune annotate`: what people write beside measurements. */
import type { Annotation } from '../../../trials/annotation.ts'
import { annotate } from '../../../trials/store/index.ts'
import { exitCodes, usageError } from '../../exit-codes.ts'
import { annotationLines } from '../../render/annotation-lines.ts'
import { existingStore, newestOf, noSuchExperiment, openExisting } from '../open-existing.ts'

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

/** Returns the exit code. @throws UserError and StoreError */
export async function annotateOne(
  given: string | undefined,
  flags: AnnotateFlags,
): Promise<number> {
  existingStore(flags.db)
  const { note, tag: addTags, untag: removeTags, archive, restore } = flags
  const trial = trialOf(flags)
  const archived = archive || restore ? archive === true : undefined
  if ([note, addTags, removeTags, archived].every((one) => one === undefined))
    throw usageError(
      'tune annotate: nothing to write',
      'add --note, --tag, --untag, --archive or --restore',
    )
  const id = given ?? (await newestIn(flags.db))
  const kept = await annotate(
    flags.db,
    { experimentId: id, trial },
    { note, addTags, removeTags, archived },
  )
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ experiment: id, trial, ...kept }, null, 2)}\n`
      : `${told(id, trial, kept)}\n`,
  )
  return exitCodes.ok
}

async function newestIn(db: string): Promise<string> {
  const store = await openExisting(db)
  try {
    const known = [...(await store.list())].reverse()
    const newest = newestOf(known)
    if (!newest) throw noSuchExperiment(known, undefined)
    return newest.id
  } finally {
    await store.close()
  }
}

function trialOf({ trial, archive, restore }: AnnotateFlags): number | undefined {
  if (archive && restore)
    throw usageError(
      'tune annotate: --archive and --restore exclude each other',
      'use only one of them',
    )
  if (trial === undefined) return undefined
  if (archive || restore)
    throw usageError(
      'tune annotate: a trial cannot be archived',
      'leave --trial out, or tag the trial instead',
    )
  const number = Number(trial)
  if (!(Number.isSafeInteger(number) && number > 0))
    throw usageError(`--trial ${trial} is not a trial number`, 'use a number from tune show')
  return number
}

const told = (id: string, trial: number | undefined, kept: Annotation): string =>
  [`${id}${trial === undefined ? '' : `, trial ${trial}`}`, ...annotationLines(kept)].join('\n')
