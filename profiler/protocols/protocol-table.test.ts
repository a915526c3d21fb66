import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { protocolFor } from './index.ts'
import { fallbackProtocol, protocolNames, protocolTable } from './protocol-table.ts'

const known = { kind: 'generated', seed: 1, count: 1 } as const
const { signal } = new AbortController()

describe.each(protocolNames)('%s', (name) => {
  const traits = protocolTable[name]

  test('its module makes a protocol of that name, and of its transport', async () => {
    const { create, probes, uniqueMethods } = await traits.load()
    expect(create({ timeoutMs: traits.timeoutMs }).name).toBe(name)
    expect(uniqueMethods !== undefined).toBe(traits.transport === 'grpc')
    // What nothing tells from others is what stays when all have been asked.
    expect(probes === undefined && uniqueMethods === undefined).toBe(name === fallbackProtocol)
  })

  test('streaming protocols take only prompts', async () => {
    const texts = { kind: 'texts', path: '/nowhere.txt', seed: 1 } as const
    const failure = protocolFor(name).prepare('http://127.0.0.1:1', 'm', texts, signal)
    await expect(failure).rejects.toMatchObject({
      name: traits.streams ? 'PayloadError' : expect.stringMatching(/PayloadError|ProtocolError/),
    })
    if (traits.streams) await expect(failure).rejects.toThrow(/no requests to a language model/)
  })

  test('metadata is requested before anything else where there is any', async () => {
    const failure = protocolFor(name).prepare('http://127.0.0.1:1', 'm', known, signal)
    await expect(failure).rejects.toThrow(
      traits.metadata ? /(\/v[12]\/models\/m|Metadata)|cannot be reached/ : /cannot be reached/,
    )
  })

  test('its ready path is one of an HTTP server', () => {
    expect(traits.readyPath('a b')).toMatch(/^\/[\w/%.-]+$/)
  })
})

test('capabilities come from the table, never from the name', () => {
  const root = new URL('../../', import.meta.url)
  const asks = new RegExp(`\\bprotocol(Name)?\\)? *[!=]== *'(${protocolNames.join('|')})'`)
  const asking = ['profiler', 'trials', 'reports', 'tuner']
    .flatMap((folder) =>
      readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).map(
        (file) => `${folder}/${file}`,
      ),
    )
    .filter((file) => /\.tsx?$/.test(file) && !/\.(test|bench|contract|k8s-test)\.tsx?$/.test(file))
    .filter((file) => asks.test(readFileSync(new URL(file, root), 'utf8')))
  expect(asking).toEqual([])
})
