import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RequestBody } from '../model/target.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { protocolFor } from './index.ts'
import { listModels } from './model-list.ts'
import { protocolNames } from './protocol-table.ts'

type Route = (body: string, response: ServerResponse) => unknown

const signal = new AbortController().signal
const generated = { kind: 'generated', seed: 1, count: 4 } as const
let server: Server
let url: string
let routes: Record<string, Route>

beforeEach(async () => {
  routes = {}
  server = createServer(async (request: IncomingMessage, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const route = routes[`${request.method} ${request.url}`]
    if (route === undefined) return response.writeHead(404).end('{"error":"no such path"}')
    const answer = route(body, response)
    if (!response.writableEnded) response.end(JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(resolve))
})

const parsed = (body: RequestBody) => JSON.parse(Buffer.from(body.body).toString())
const oipModel = (inputs: unknown) => {
  routes['GET /v2/models/m'] = () => ({ name: 'm', platform: 'test', inputs, outputs: [] })
  routes['POST /v2/models/m/infer'] = () => ({
    outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: [0] }],
  })
}

describe('Open Inference Protocol', () => {
  test('text inputs get English-like text of 20 to 60 words, one item each', async () => {
    oipModel([{ name: 'text', datatype: 'BYTES', shape: [-1] }])
    const target = await protocolFor('oip-v2').prepare(url, 'm', generated, signal)
    expect(target).toMatchObject({ path: '/v2/models/m/infer', url, expect: '"outputs"' })
    expect(target.bodies).toHaveLength(4)
    for (const body of target.bodies) {
      const [input] = parsed(body).inputs
      expect(input).toMatchObject({ name: 'text', datatype: 'BYTES', shape: [1] })
      const count = input.data[0].split(' ').length
      expect(count).toBeGreaterThanOrEqual(20)
      expect(count).toBeLessThanOrEqual(60)
    }
  })

  test('image inputs get JPEGs', async () => {
    oipModel([{ name: 'image', datatype: 'BYTES', shape: [-1] }])
    const target = await protocolFor('oip-v2').prepare(url, 'm', { ...generated, count: 1 }, signal)
    const bytes = Buffer.from(parsed(target.bodies[0]!).inputs[0].data[0], 'base64')
    expect(bytes.subarray(0, 3)).toEqual(Buffer.from([0xff, 0xd8, 0xff]))
  })

  test('numeric inputs get tensors of their shape, masks ones', async () => {
    oipModel([
      { name: 'input_ids', datatype: 'INT64', shape: [-1, -1] },
      { name: 'attention_mask', datatype: 'INT64', shape: [-1, 16] },
      { name: 'pixels', datatype: 'FP32', shape: [-1, 3, 8, 8] },
    ])
    const target = await protocolFor('oip-v2').prepare(url, 'm', generated, signal)
    const [ids, mask, pixels] = parsed(target.bodies[0]!).inputs
    expect(ids.shape).toEqual([1, 128])
    expect(ids.data).toHaveLength(128)
    expect(mask.data).toEqual(Array(16).fill(1))
    expect(pixels.data).toHaveLength(192)
  })

  test('the same seed makes the same pool', async () => {
    oipModel([{ name: 'text', datatype: 'BYTES', shape: [-1] }])
    const pools = [1, 1, 2].map((seed) =>
      protocolFor('oip-v2').prepare(url, 'm', { ...generated, seed }, signal),
    )
    const [a, b, c] = (await Promise.all(pools)).map((target) =>
      target.bodies.map((body) => Buffer.from(body.body).toString()),
    )
    expect(a).toEqual(b)
    expect(a).not.toEqual(c)
  })

  test('ready only when the server and the model are', async () => {
    const protocol = protocolFor('oip-v2')
    expect(await protocol.isReady('http://127.0.0.1:1', 'm', signal)).toBe(false)
    routes['GET /v2/health/ready'] = () => ({})
    expect(await protocol.isReady(url, 'm', signal)).toBe(false)
    oipModel([])
    expect(await protocol.isReady(url, 'm', signal)).toBe(true)
  })

  test.each<[string, Route, RegExp]>([
    [
      'an error status',
      (_, response) => response.writeHead(500).end('{"error":"CUDA out of memory"}'),
      /answered 500.*CUDA out of memory/,
    ],
    [
      '200 with an error body',
      () => ({ error: 'model is on fire' }),
      /with the error "model is on fire"/,
    ],
    ['200 with garbage', (_, response) => response.end('<html>'), /not with JSON: <html>/],
    [
      'a redirect',
      (_, response) => response.writeHead(302, { location: '/elsewhere' }).end(),
      /redirects \(302\) to \/elsewhere/,
    ],
    ['a hang-up', (_, response) => void response.socket?.destroy(), /cannot be reached/],
  ])('%s is a ProtocolError with the evidence', async (_, route, message) => {
    oipModel([{ name: 'text', datatype: 'BYTES', shape: [-1] }])
    routes['POST /v2/models/m/infer'] = (body, response) => {
      const answer = route(body, response)
      return answer
    }
    const failure = protocolFor('oip-v2', { timeoutMs: 500, firstAnswerMs: 500 }).prepare(
      url,
      'm',
      generated,
      signal,
    )
    await expect(failure).rejects.toThrow(ProtocolError)
    await expect(failure).rejects.toThrow(message)
  })

  test('an unknown model, a dead port and a bad URL say so', async () => {
    await expect(protocolFor('oip-v2').prepare(url, 'm', generated, signal)).rejects.toThrow(
      /answered 404.*no such path/,
    )
    await expect(
      protocolFor('oip-v2').prepare('http://127.0.0.1:1', 'm', generated, signal),
    ).rejects.toThrow(/cannot be reached/)
    await expect(protocolFor('oip-v2').prepare('nonsense', 'm', generated, signal)).rejects.toThrow(
      /not a URL/,
    )
  })
})

describe('TensorFlow Serving', () => {
  test('instances follow the signature', async () => {
    let seen: unknown
    routes['GET /v1/models/m/metadata'] = () => ({
      metadata: {
        signature_def: {
          signature_def: {
            serving_default: {
              inputs: {
                text: { dtype: 'DT_STRING', tensor_shape: { dim: [{ size: '-1' }] } },
                scores: {
                  dtype: 'DT_FLOAT',
                  tensor_shape: { dim: [{ size: '-1' }, { size: '2' }, { size: '3' }] },
                },
              },
            },
          },
        },
      },
    })
    routes['POST /v1/models/m:predict'] = (body) => {
      seen = JSON.parse(body)
      return { predictions: [0] }
    }
    const target = await protocolFor('tfserving').prepare(url, 'm', generated, signal)
    expect(target.path).toBe('/v1/models/m:predict')
    const { instances } = seen as { instances: { text: string; scores: number[][] }[] }
    expect(instances).toHaveLength(1)
    expect(instances[0]!.text).toMatch(/^[A-Z].*\.$/)
    expect(instances[0]!.scores.map((row) => row.length)).toEqual([3, 3])
  })
})

describe('plain JSON', () => {
  test('fills the template', async () => {
    routes['POST /score'] = () => ({ label: 'good' })
    const options = {
      path: '/score',
      template: '{"q": "{{text}}", "id": {{int}}}',
      expect: 'label',
    }
    const target = await protocolFor('json', options).prepare(url, 'm', generated, signal)
    expect(parsed(target.bodies[0]!)).toEqual({
      q: expect.stringMatching(/\w+ /),
      id: expect.any(Number),
    })
  })

  test('a template with an unknown name or that is not JSON is a PayloadError', async () => {
    await expect(
      protocolFor('json', { template: '{"a": {{what}}}' }).prepare(url, 'm', generated, signal),
    ).rejects.toThrow(/\{\{what\}\}/)
    await expect(
      protocolFor('json', { template: '{"a": {{text}}}' }).prepare(url, 'm', generated, signal),
    ).rejects.toThrow(PayloadError)
  })
})

describe('payload files', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'payload-'))
    oipModel([])
  })
  afterEach(() => rm(folder, { recursive: true }))
  const prepare = async (text: string) => {
    const path = join(folder, 'bodies.jsonl')
    await writeFile(path, text)
    return protocolFor('oip-v2').prepare(url, 'm', { kind: 'file', path }, signal)
  }

  test('one body a line', async () => {
    const target = await prepare('{"inputs":[1]}\n\n{"inputs":[2]}\n')
    expect(target.bodies.map(parsed)).toEqual([{ inputs: [1] }, { inputs: [2] }])
  })

  test('every bad line is named', async () => {
    await expect(prepare('{"a":1}\n{oops\n{"b":2}\n]')).rejects.toThrow(
      /bodies.jsonl:2: .*bodies.jsonl:4: /,
    )
    await expect(prepare('\n')).rejects.toThrow(/no request body/)
  })

  test('a missing file is named', async () => {
    await expect(
      protocolFor('oip-v2').prepare(url, 'm', { kind: 'file', path: '/nowhere.jsonl' }, signal),
    ).rejects.toThrow(/nowhere/)
  })
})

describe('model lists', () => {
  const lists = { '/v2/repository/index': 'POST', '/v2/models': 'GET', '/v1/models': 'GET' }
  const told = (answers: Record<string, unknown>) => {
    const asked: string[] = []
    for (const [path, method] of Object.entries(lists))
      routes[`${method} ${path}`] = (_body, response) => {
        asked.push(`${method} ${path}`)
        if (!(path in answers)) response.writeHead(404)
        return answers[path] ?? {}
      }
    return asked
  }

  test.each<[(typeof protocolNames)[number], Record<string, unknown>, string[]]>([
    [
      'openai',
      {
        '/v1/models': {
          object: 'list',
          data: [{ id: 'llama' }, { id: 'lora' }, { id: 'llama' }, {}],
        },
      },
      ['llama', 'lora'],
    ],
    ['openai', { '/v1/models': { data: 'none' } }, []],
    [
      'oip-v2',
      {
        '/v2/repository/index': [{ name: 'bert', state: 'READY' }],
        '/v2/models': { models: ['other'] },
      },
      ['bert'],
    ],
    [
      'oip-v2',
      { '/v2/repository/index': [], '/v2/models': { models: ['bert', 'resnet'] } },
      ['bert', 'resnet'],
    ],
    ['oip-v2', { '/v2/models': { models: [{ name: 'bert' }, { id: 7 }] } }, ['bert']],
    ['oip-v2', {}, []],
    ['tfserving', { '/v1/models': { models: ['bert', 'resnet'] } }, ['bert', 'resnet']],
  ])('%s: %o', async (protocol, answers, names) => {
    told(answers)
    expect(await listModels(protocol, url, {}, signal)).toEqual(names)
  })

  test('are requested only from protocols that have them, until one has any', async () => {
    const asks = async (protocol: (typeof protocolNames)[number], answers = {}) => {
      const asked = told(answers)
      await listModels(protocol, url, {}, signal)
      return asked
    }
    const withLists = ['openai', 'oip-v2', 'tfserving']
    for (const protocol of protocolNames.filter((name) => !withLists.includes(name)))
      expect(await asks(protocol)).toEqual([])
    expect(await asks('oip-v2')).toEqual(['POST /v2/repository/index', 'GET /v2/models'])
    expect(await asks('oip-v2', { '/v2/repository/index': [{ name: 'm' }] })).toEqual([
      'POST /v2/repository/index',
    ])
  })
})
