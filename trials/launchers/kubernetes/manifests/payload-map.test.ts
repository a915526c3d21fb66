import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkManifests } from '../../../../reports/specs/validate.contract.ts'
import type { Api } from '../api/api.ts'
import { planLoadJob, runLoad } from '../launch/load-run.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { createPayloadMap, maxPayloadBytes, payloadFolder } from './payload-map.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-payload-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const owner = { name: 'tune-e', uid: 'u' }
const file = (name: string, contents: string | Buffer) => {
  const path = join(folder, name)
  writeFileSync(path, contents)
  return path
}
const job = { experimentId: 'e', trial: 1, owner, image: 'i', task: '{}', deadlineS: 60 }

test('bodies of a file reach the load generator as they are, and both objects are valid', async () => {
  const bodies = '{"text": "grün"}\n{"text": "blau"}\n'
  const map = await createPayloadMap('e', {
    kind: 'file',
    path: file('meine bodies.jsonl', bodies),
  })
  const body = map!.body(owner) as { binaryData: Record<string, string>; metadata: object }
  expect(map!.source).toEqual({ kind: 'file', path: `${payloadFolder}/meine_bodies.jsonl` })
  expect(Buffer.from(body.binaryData['meine_bodies.jsonl']!, 'base64').toString()).toBe(bodies)
  expect(body.metadata).toMatchObject({
    labels: { 'tune/experiment': 'e' },
    ownerReferences: [{ uid: 'u' }],
  })
  const load = planLoadJob(
    { ...job, payload: { configMap: map!.name, folder: payloadFolder } },
    'load',
  )
  for (const object of [body, load])
    expect(checkManifests(JSON.stringify(object)).problems).toEqual([])
  expect(load).toMatchObject({
    spec: {
      template: {
        spec: {
          volumes: [{ configMap: { name: map!.name } }],
          containers: [{ volumeMounts: [{ mountPath: payloadFolder, readOnly: true }] }],
        },
      },
    },
  })
})

test('pictures go in the order of their names, each by a key of its own; other files stay here', async () => {
  const pictures = join(folder, 'pictures')
  mkdirSync(pictures)
  for (const name of ['b ä.png', 'b_ä.png', 'a.JPG', 'notes.txt'])
    writeFileSync(join(pictures, name), name)
  const map = await createPayloadMap('e', { kind: 'images', path: pictures, seed: 1, count: 2 })
  expect(map!.source).toEqual({ kind: 'images', path: payloadFolder, seed: 1, count: 2 })
  expect(Object.keys((map!.body(owner) as { binaryData: object }).binaryData)).toEqual([
    '0000-a.JPG',
    '0001-b__.png',
    '0002-b__.png',
  ])
})

test('another content has another name; more than a ConfigMap holds is refused, with what to do', async () => {
  const path = file('texts.txt', 'one\n')
  const first = await createPayloadMap('e', { kind: 'texts', path, seed: 1 })
  file('texts.txt', 'two\n')
  expect((await createPayloadMap('e', { kind: 'texts', path, seed: 1 }))!.name).not.toBe(
    first!.name,
  )
  const large = file('large.jsonl', Buffer.alloc(maxPayloadBytes + 1, 97))
  await expect(createPayloadMap('e', { kind: 'file', path: large })).rejects.toMatchObject({
    message: expect.stringContaining('has 1025 KiB'),
    hint: expect.stringContaining('port-forward'),
  })
  await expect(createPayloadMap('e', { kind: 'file', path: join(folder, 'none') })).rejects.toThrow(
    /cannot be read/,
  )
})

test('a task that no environment takes is refused before a Job is made', async () => {
  const nowhere = { request: () => Promise.reject(new Error('asked')) } as unknown as Api
  const options = {
    ...job,
    task: 'x'.repeat(140_000),
    api: nowhere,
    watch: {} as PodWatch,
    explainLoss: async () => undefined,
    onLine: () => false,
  }
  await expect(runLoad(options, new AbortController().signal)).rejects.toMatchObject({
    name: 'LaunchError',
    message: expect.stringContaining('137 KiB'),
  })
})

test.each([{ file: 'share.json' }, { tokenizer: 'tokenizer.json' }])(
  'what prompts are made from stays here: %j',
  async (from) => {
    const lengths = {
      inputTokens: { kind: 'fixed', tokens: 9 },
      outputTokens: { kind: 'fixed', tokens: 9 },
    } as const
    expect(
      await createPayloadMap('e', { kind: 'generated', seed: 1, prompts: lengths }),
    ).toBeUndefined()
    await expect(
      createPayloadMap('e', { kind: 'generated', seed: 1, prompts: { ...lengths, ...from } }),
    ).rejects.toMatchObject({
      message: expect.stringContaining(Object.values(from)[0]!),
      hint: expect.stringContaining('loadFrom: port-forward'),
    })
  },
)

test('a form whose files stay here is refused', async () => {
  const generated = { kind: 'generated', seed: 1 } as const
  expect(
    await createPayloadMap('e', generated, { file: '{{image}}', to: '\\@home' }),
  ).toBeUndefined()
  await expect(createPayloadMap('e', generated, { file: '@/clip.wav' })).rejects.toThrow(
    'cannot read /clip.wav, which the form field file sends',
  )
})
