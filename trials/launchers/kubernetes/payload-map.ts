/**
 * The user's request bodies, texts or pictures as a ConfigMap, for a load generator in the cluster
 * to read.
 */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { readBytes } from '../../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import { type FormFields, listFields, parseField } from '../../../profiler/protocols/form-fields.ts'
import { LaunchError } from '../../types.ts'
import { type Json, labelsOf, type Owner, ownerName, ownerReferences } from './manifests.ts'

type FilePayload = Exclude<PayloadSource, { readonly kind: 'generated' }>

/** What a ConfigMap holds at most, in bytes (the API server's own limit). */
export const mostPayloadBytes = 2 ** 20
/** Where the load generator finds them. */
export const payloadFolder = '/tune/payload'

export interface PayloadMap {
  readonly name: string
  /** The same payload as the load generator names it. */
  readonly source: PayloadSource
  body(owner: Owner): Json
}

/**
 * @returns undefined for a payload without files
 * @throws LaunchError for files that cannot be read or are too large together, for what prompts are
 * made from, which is larger as a rule, and for files of a form
 */
export async function payloadMap(
  experimentId: string,
  payload: PayloadSource,
  form: FormFields = {},
): Promise<PayloadMap | undefined> {
  const hint = 'or set kubernetes: {loadFrom: port-forward} to send the load from this machine'
  for (const [name, text] of listFields(form)) {
    const { kind, content } = parseField(text)
    if (kind !== 'value')
      throw new LaunchError(
        `a load generator in the cluster cannot read ${content}, which the form field ${name} sends`,
        `use a placeholder such as {{image}} in the field, ${hint}`,
      )
  }
  if (payload.kind === 'generated') {
    const { file, tokenizer } = payload.prompts ?? {}
    const read = file ?? tokenizer
    if (read === undefined) return undefined
    throw new LaunchError(
      `a load generator in the cluster cannot read ${read}, from which prompts are generated`,
      `leave it out, ${hint}`,
    )
  }
  let files: { key: string; bytes: Buffer }[]
  try {
    files = await filesOf(payload)
  } catch (error) {
    throw new LaunchError(
      `the payload ${payload.path} cannot be read: ${(error as Error).message}`,
      'correct load.payload',
    )
  }
  const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0)
  if (bytes > mostPayloadBytes) {
    const kib = (count: number) => `${Math.ceil(count / 1024)} KiB`
    const what = `the payload ${payload.path} has ${kib(bytes)}, but a load generator in the cluster can receive at most ${kib(mostPayloadBytes)}`
    throw new LaunchError(`${what} (a ConfigMap)`, `use a smaller payload, ${hint}`)
  }
  const hash = createHash('sha256')
  for (const { key, bytes } of files) hash.update(key).update('\0').update(bytes)
  const name = `${ownerName(experimentId)}-payload-${hash.digest('hex').slice(0, 8)}`
  const [first] = files
  return {
    name,
    source: {
      ...payload,
      path: payload.kind === 'images' ? payloadFolder : `${payloadFolder}/${first!.key}`,
    },
    body: (owner) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name,
        labels: labelsOf(experimentId, 'payload'),
        ownerReferences: ownerReferences(owner),
      },
      binaryData: Object.fromEntries(
        files.map(({ key, bytes }) => [key, bytes.toString('base64')]),
      ),
    }),
  }
}

async function filesOf({ kind, path }: FilePayload): Promise<{ key: string; bytes: Buffer }[]> {
  if (kind !== 'images') return [{ key: keyOf(basename(path)), bytes: readBytes(path, 'data') }]
  const names = (await readdir(path)).filter((name) => /\.(jpe?g|png)$/i.test(name)).sort()
  // Numbered, so that names that differ in odd characters alone stay apart, and in the order that
  // they are drawn from.
  return Promise.all(
    names.map(async (name, i) => ({
      key: keyOf(`${String(i).padStart(4, '0')}-${name}`),
      bytes: readBytes(join(path, name), 'data'),
    })),
  )
}

/** A key of a ConfigMap; the end, which says what it is, stays. */
const keyOf = (name: string): string => name.replace(/[^-._a-zA-Z0-9]/g, '_').slice(-200)
