/**
 * The user's request bodies, texts or images as a ConfigMap for a load generator in the cluster.
 */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { readBytes } from '../../../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../../../profiler/payload-source.ts'
import {
  type FormFields,
  listFields,
  parseField,
} from '../../../../profiler/protocols/form-fields.ts'
import { LaunchError } from '../../../types.ts'
import {
  createLabels,
  createOwnerReferences,
  formatOwnerName,
  type Json,
  type Owner,
} from './manifests.ts'

type FilePayload = Exclude<PayloadSource, { readonly kind: 'generated' }>

/** Size limit of a ConfigMap in bytes (enforced by the API server). */
export const maxPayloadBytes = 2 ** 20
/** Mount path in the load generator's container. */
export const payloadFolder = '/tune/payload'

export interface PayloadMap {
  readonly name: string
  /** The payload, with its path in the load generator's container. */
  readonly source: PayloadSource
  body(owner: Owner): Json
}

/**
 * @returns undefined for a payload without files
 * @throws LaunchError for unreadable or too large files, for sources of generated prompts, and for
 * files in form fields
 */
export async function createPayloadMap(
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
    files = await readPayloadFiles(payload)
  } catch (error) {
    throw new LaunchError(
      `the payload ${payload.path} cannot be read: ${(error as Error).message}`,
      'correct load.payload',
    )
  }
  const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0)
  if (bytes > maxPayloadBytes) {
    const kib = (count: number) => `${Math.ceil(count / 1024)} KiB`
    const what = `the payload ${payload.path} has ${kib(bytes)}, but a load generator in the cluster can receive at most ${kib(maxPayloadBytes)}`
    throw new LaunchError(`${what} (a ConfigMap)`, `use a smaller payload, ${hint}`)
  }
  const hash = createHash('sha256')
  for (const { key, bytes } of files) hash.update(key).update('\0').update(bytes)
  const name = `${formatOwnerName(experimentId)}-payload-${hash.digest('hex').slice(0, 8)}`
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
        labels: createLabels(experimentId, 'payload'),
        ownerReferences: createOwnerReferences(owner),
      },
      binaryData: Object.fromEntries(
        files.map(({ key, bytes }) => [key, bytes.toString('base64')]),
      ),
    }),
  }
}

async function readPayloadFiles({
  kind,
  path,
}: FilePayload): Promise<{ key: string; bytes: Buffer }[]> {
  if (kind !== 'images') return [{ key: createKey(basename(path)), bytes: readBytes(path, 'data') }]
  const names = (await readdir(path)).filter((name) => /\.(jpe?g|png)$/i.test(name)).sort()
  // Numbered, so that keys stay distinct after replacement, and in the order of the payload.
  return Promise.all(
    names.map(async (name, i) => ({
      key: createKey(`${String(i).padStart(4, '0')}-${name}`),
      bytes: readBytes(join(path, name), 'data'),
    })),
  )
}

/** Creates a valid ConfigMap key; the end of the name, with its extension, is preserved. */
const createKey = (name: string): string => name.replace(/[^-._a-zA-Z0-9]/g, '_').slice(-200)
