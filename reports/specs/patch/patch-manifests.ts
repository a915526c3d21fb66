/**
 * The tuned values put into a manifest that the user has. Comments, order and every other byte stay
 * as they are: find the container, list the edits, apply them, and check that nothing else changed.
 */
import { isDeepStrictEqual } from 'node:util'
import { classifyFigures, type Figures } from '../../figures.ts'
import type { Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import { type Edit, joinEdits } from './edits.ts'
import { findContainer, type ServerContainer } from './find-container.ts'
import { listGpuEdits } from './gpu-edits.ts'
import { readObjects } from './manifest-objects.ts'
import { isJson, readDocuments } from './manifest-text.ts'
import { listReplicaEdits } from './replica-edits.ts'
import { listResourceEdits, tunesGpu } from './resource-edits.ts'
import { listSettingEdits } from './setting-edits.ts'
import { removeAt, replaceWithin, SharedValueError, setAt } from './text-edit.ts'
import { getValueAt, isYamlMap, type Path, setValueAt, type YamlValue } from './yaml-values.ts'

interface PatchOptions {
  /** The container to tune, where the file has several: its name, or KIND/NAME/CONTAINER. */
  readonly container?: string
  /** Name of the file, for messages. */
  readonly file: string
}

/** One change, for people. */
interface Change {
  /** 'Deployment bert: spec.replicas' */
  readonly where: string
  readonly from: YamlValue | undefined
  /** Undefined: removed. */
  readonly to: YamlValue | undefined
}

interface PatchResult {
  readonly text: string
  /** 'Deployment/bert/server, by its image and command' */
  readonly container: string
  readonly changes: readonly Change[]
  /** 'BATCH_SIZE = 8: why it was not set', of tuned values that the container has no place for. */
  readonly unappliedValues: readonly string[]
  /** Settings that conflict with the tuned values and were left in place. */
  readonly conflicts: readonly string[]
  /** Whether the measurement's figures hold of the container that the manifest has. */
  readonly figures: Figures
}

/**
 * Sets what was tuned, and nothing else: cores, memory, GPU, variables and arguments of the
 * server's container; where a demand sizes them the replicas, or the bounds of an autoscaler.
 * @throws SpecError if the file has no workload, or several that may be meant
 */
export function patchManifests(text: string, serving: Serving, options: PatchOptions): PatchResult {
  if (serving.resources.pools !== undefined)
    throw new SpecError(
      'a patch changes one container, and this configuration has pools of prefill and decode servers',
      'choose --target kubernetes --server sglang, or another --trial',
    )
  const { file, container: requested } = options
  const objects = readObjects(text, file)
  const target = findContainer(objects, serving, {
    file,
    ...(requested !== undefined && { requested }),
  })
  const figures = classifyPatchedFigures(target, serving)
  const { edits, unappliedValues, conflicts } = joinEdits([
    listReplicaEdits(objects, target, serving, figures.apply),
    listResourceEdits(target, serving),
    listSettingEdits(target, serving),
    ...(tunesGpu(serving) ? [listGpuEdits(target, serving)] : []),
  ])
  const patched = applyEdits(text, edits, file)
  checkNothingElse(text, patched, edits, file)
  return {
    text: patched,
    container: `${target.label}, ${target.reason}`,
    changes: edits.map(({ object, path, value }) => ({
      where: `${object.title}: ${path.join('.')}`,
      from: getValueAt(object.value, path),
      to: value,
    })),
    unappliedValues,
    conflicts,
    figures,
  }
}

/** Whether the figures apply: the manifest deploys its own image, not that of a spec. */
function classifyPatchedFigures(
  { value, server, label }: ServerContainer,
  serving: Serving,
): Figures {
  const { evidence, deployed } = serving
  if (server === deployed.server) return serving.figures
  const image = getValueAt(value, ['image'])
  const serverText = typeof image === 'string' ? `the image ${image}` : 'the server'
  const { weights } = deployed
  if (server !== undefined) return classifyFigures(evidence.measured, { server, weights })
  const isBuiltin = deployed.server === 'builtin'
  return classifyFigures(
    evidence.measured,
    isBuiltin ? { server: 'command', weights } : deployed,
    `${serverText} of ${label}`,
  )
}

/**
 * Applies edits of shared values last: once the aliases of a value are written out, nothing may
 * refer to its anchor any more.
 * @throws SharedValueError if a value is still shared
 */
function applyEdits(text: string, edits: readonly Edit[], file: string): string {
  const conflictingEdits: Edit[] = []
  let [edited, sharedValueError] = [text, undefined as SharedValueError | undefined]
  for (const edit of edits)
    try {
      edited = applyEdit(edited, edit, file)
    } catch (error) {
      if (!(error instanceof SharedValueError)) throw error
      conflictingEdits.push(edit)
      sharedValueError = error
    }
  if (conflictingEdits.length === edits.length && sharedValueError !== undefined)
    throw sharedValueError
  return conflictingEdits.length === 0 ? edited : applyEdits(edited, conflictingEdits, file)
}

function applyEdit(text: string, { object, path, value, spans }: Edit, file: string): string {
  const place = { index: object.document, file }
  const fullPath = [...object.base, ...path]
  if (value === undefined) return removeAt(text, place, fullPath)
  return spans ? replaceWithin(text, place, fullPath, spans) : setAt(text, place, fullPath, value)
}

/** @throws SpecError if an edit changed more than it says: aliases and merge keys may share it */
function checkNothingElse(
  before: string,
  after: string,
  edits: readonly Edit[],
  file: string,
): void {
  const expected = edits.reduce<readonly YamlValue[]>((documents, { object, path, value }) => {
    const { document, base } = object
    return documents.map((one, i) =>
      i === document ? setValueAt(one, [...base, ...path], value) : one,
    )
  }, readDocuments(before, file).values)
  const actual = readDocuments(after, file).values
  const where = findFirstDifference(expected, actual, [])
  if (where === undefined && isJson(before) === isJson(after)) return
  throw new SpecError(
    `${file} cannot be patched: ${where?.join('.') ?? 'its JSON'} would change too`,
    'write out the values that it shares by aliases (*name) or merge keys (<<)',
  )
}

function findFirstDifference(
  a: YamlValue | undefined,
  b: YamlValue | undefined,
  path: Path,
): Path | undefined {
  if (isDeepStrictEqual(a, b)) return undefined
  const bothLists = Array.isArray(a) && Array.isArray(b)
  if (!bothLists && !(isYamlMap(a) && isYamlMap(b))) return path
  const keys = [...new Set([...Object.keys(a as object), ...Object.keys(b as object)])]
  for (const key of keys) {
    const difference = findFirstDifference(
      (a as Record<string, YamlValue>)[key],
      (b as Record<string, YamlValue>)[key],
      [...path, key],
    )
    if (difference) return difference
  }
  return path
}
