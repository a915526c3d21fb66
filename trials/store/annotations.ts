/** Users' annotations: notes, tags, and archived experiments. No figure depends on them. */
import {
  type Annotation,
  type AnnotationChange,
  type Annotations,
  experimentItself,
} from '../annotation.ts'
import type { Transaction } from './connection.ts'
import { encode } from './infinity-json.ts'
import { StoreError } from './store-error.ts'
import {
  computeDigest,
  formatId,
  type OnDamage,
  parseDocument,
  requireExperiment,
} from './stored-rows.ts'
import { writeOnce } from './write-once.ts'

interface AnnotationRow {
  readonly experiment_id: string
  readonly trial_number: number
  readonly updated_at: string
  readonly annotation: string
  readonly digest: string
}

/** Limits of a note, of the tags, and of one tag; texts in characters. Assumed. */
const maxNoteLength = 10_000
const maxTags = 32
const maxTagLength = 64

/**
 * Annotations of all experiments, or of the named one. Damaged ones are reported to `onDamage` and
 * skipped.
 */
export async function readAnnotations(
  sql: Transaction,
  onDamage: OnDamage,
  id?: string,
): Promise<ReadonlyMap<string, Annotations>> {
  const rows = await sql.all<AnnotationRow>(
    `SELECT * FROM annotations ${id === undefined ? '' : 'WHERE experiment_id = ?'} ORDER BY experiment_id, trial_number`,
    id === undefined ? [] : [id],
  )
  const annotationsById = new Map<string, Map<number, Annotation>>()
  for (const row of rows) {
    const annotation = parseAnnotation(row, onDamage)
    if (annotation)
      annotationsById.set(
        row.experiment_id,
        (annotationsById.get(row.experiment_id) ?? new Map()).set(row.trial_number, annotation),
      )
  }
  return annotationsById
}

/** Undefined for a damaged row, which is reported to `onDamage`. */
function parseAnnotation(row: AnnotationRow, onDamage: OnDamage): Annotation | undefined {
  const { annotation: text, digest } = row
  const read = parseDocument(
    { where: nameAnnotation({ ...row }), text, digest, parts: listParts(row) },
    onDamage,
  )
  return read?.document as Annotation | undefined
}

export const nameAnnotation = ({
  experiment_id,
  trial_number,
}: Readonly<Record<string, unknown>>): string =>
  `the annotation of ${trial_number === experimentItself ? '' : `trial ${trial_number} of `}experiment ${formatId(experiment_id)}`

const listParts = ({
  experiment_id,
  trial_number,
  updated_at,
  annotation,
}: Omit<AnnotationRow, 'digest'>) => [experiment_id, trial_number, updated_at, annotation]

/**
 * Applies a change to an annotation.
 * @throws StoreError that names every invalid tag or note
 */
export function applyChange(
  before: Annotation | undefined,
  change: AnnotationChange,
  now: string,
): Annotation {
  const { note, addTags = [], removeTags = [], archived } = change
  const added = addTags.map((tag) => tag.trim())
  const remainingTags = (before?.tags ?? []).filter(
    (tag) => !removeTags.map((one) => one.trim()).includes(tag),
  )
  const tags = [...new Set([...remainingTags, ...added])].sort((a, b) => a.localeCompare(b, 'en'))
  const problems = [
    ...added.flatMap(findTagProblem),
    ...(tags.length > maxTags ? [`${tags.length} tags exceed the maximum of ${maxTags}`] : []),
    ...(note !== undefined && note.length > maxNoteLength
      ? [`a note of ${note.length} characters exceeds the maximum of ${maxNoteLength}`]
      : []),
  ]
  if (problems.length > 0)
    throw new StoreError(
      'not-kept',
      problems.join('; '),
      `write a tag of one or a few words, at most ${maxTagLength} characters, without commas`,
    )
  const newNote = note === undefined ? before?.note : note.trim() || undefined
  const archivedAt =
    archived === undefined ? before?.archivedAt : archived ? (before?.archivedAt ?? now) : undefined
  return {
    ...(newNote !== undefined && { note: newNote }),
    tags,
    ...(archivedAt !== undefined && { archivedAt }),
  }
}

function findTagProblem(tag: string): string[] {
  if (tag === '') return ['a tag is empty']
  if (tag.length > maxTagLength)
    return [`the tag "${tag.slice(0, 20)}..." has ${tag.length} characters`]
  return /[\p{Cc}\p{Cf},]/u.test(tag)
    ? [`the tag ${JSON.stringify(tag)} contains a comma or an invisible character`]
    : []
}

/**
 * Annotates an experiment, or one of its trials. Resolves with the stored annotation.
 * @throws StoreError
 */
export async function annotate(
  path: string,
  {
    experimentId,
    trial = experimentItself,
  }: { readonly experimentId: string; readonly trial?: number },
  change: AnnotationChange,
): Promise<Annotation> {
  let after: Annotation = { tags: [] }
  await writeOnce(path, (connection) =>
    connection.write(async (sql) => {
      await requireTarget(sql, experimentId, trial)
      const now = new Date().toISOString()
      const before = (await readAnnotations(sql, () => {}, experimentId))
        .get(experimentId)
        ?.get(trial)
      after = applyChange(before, change, now)
      const row = {
        experiment_id: experimentId,
        trial_number: trial,
        updated_at: now,
        annotation: encode(after),
      }
      return insertAnnotation(sql, { ...row, digest: computeDigest(listParts(row)) })
    }),
  )
  return after
}

const insertAnnotation = (sql: Transaction, row: AnnotationRow): Promise<void> =>
  sql.run(
    'INSERT OR REPLACE INTO annotations (experiment_id, trial_number, updated_at, annotation, digest) VALUES (?, ?, ?, ?, ?)',
    [...listParts(row), row.digest],
  )

async function requireTarget(sql: Transaction, id: string, trial: number): Promise<void> {
  await requireExperiment(sql, id)
  if (trial === experimentItself) return
  const [row] = await sql.all('SELECT 1 FROM trials WHERE experiment_id = ? AND number = ?', [
    id,
    trial,
  ])
  if (!row)
    throw new StoreError(
      'unknown-experiment',
      `experiment ${id} has no trial ${trial}`,
      '`tune show --json` lists the trial numbers',
    )
}
