/**
 * Servers that answer 200, or OK, to something else than they were asked: each is refused before it
 * is measured, and its twin that answers well is not.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Handler, startGrpcServer } from '../testing/known-grpc-server.ts'
import { type Field, wire } from '../testing/wire.ts'
import { protocolFor } from './index.ts'
import type { ProtocolName } from './protocol-table.ts'

const { signal } = new AbortController()
const payload = {
  kind: 'generated',
  seed: 1,
  count: 2,
  items: { kind: 'fixed', items: 2 },
} as const
type Answer = (asked: Record<string, never>) => unknown

let server: Server
let url: string
let answer: Answer
/**
 * Collects requests that come together, and answers each with the value of the one that `rowOf`
 * says.
 */
let together: ((row: number, rows: number) => number) | undefined
const metadataPath = '/v1/models/m/metadata'
const signature = {
  inputs: { x: { dtype: 'DT_FLOAT', tensor_shape: { dim: [{ size: '-1' }, { size: '3' }] } } },
  outputs: { y: { dtype: 'DT_FLOAT', tensor_shape: { dim: [{ size: '-1' }, { size: '1' }] } } },
}
const withOutputs = (outputs: object, inputs: object = signature.inputs) => ({
  metadata: { signature_def: { signature_def: { serving_default: { inputs, outputs } } } },
})
const metadata: Record<string, unknown> = {
  '/v2/models/m': {
    name: 'm',
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 3] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, 1] }],
  },
  [metadataPath]: withOutputs(signature.outputs),
}
let served = metadata
afterEach(() => {
  served = metadata
})
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    if (together !== undefined && body !== '')
      return inBatches(JSON.parse(body), (said) => response.end(JSON.stringify(said)))
    const said = served[request.url!] ?? (body === '' ? {} : answer(JSON.parse(body)))
    response.end(typeof said === 'string' ? said : JSON.stringify(said))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

interface Waiting {
  readonly asked: {
    readonly id: string
    readonly inputs: readonly { readonly data: readonly number[] }[]
  }
  readonly respond: (said: object) => void
}
let batch: Waiting[] = []
let answered = 0
function inBatches(asked: Waiting['asked'], respond: Waiting['respond']): void {
  batch.push({ asked, respond })
  if (batch.length > 1) return
  setTimeout(() => {
    const rows = batch
    batch = []
    for (const [i, row] of rows.entries()) {
      const { data } = rows[together!(i, rows.length)]!.asked.inputs[0]!
      answered += 1
      const values = [data[0]! + data[1]!, randomly ? answered : data[3]!]
      row.respond({
        model_name: 'm',
        id: row.asked.id,
        outputs: [{ name: 'y', datatype: 'FP32', shape: [2, 1], data: values }],
      })
    }
  }, 30)
}
let randomly = false

describe('concurrent requests', () => {
  const four = { ...payload, count: 4 }
  const asked = async (rowOf: NonNullable<typeof together>) => {
    together = rowOf
    try {
      return await protocolFor('oip-v2').prepare(url, 'm', four, signal)
    } finally {
      together = undefined
      randomly = false
    }
  }
  test('get their own rows', () => expect(asked((row) => row)).resolves.toBeDefined())
  test.each<[string, NonNullable<typeof together>]>([
    ['the rows reversed', (row, rows) => rows - 1 - row],
    ['the rows shifted', (row, rows) => (row + 1) % rows],
    ['everyone the first', () => 0],
  ])('%s', async (_, rowOf) => {
    await expect(asked(rowOf)).rejects.toMatchObject({
      why: 'answers-differ',
      message: expect.stringMatching(
        /concurrent requests get other answers than single ones: \[.+\] in place of \[.+\]/,
      ),
    })
  })
  test('are limited by the memory for answers', async () => {
    vi.stubEnv('TUNE_MAX_ANSWER_MIB', String(200 / 2 ** 20))
    await expect(asked(() => 0)).resolves.toBeDefined()
    vi.unstubAllEnvs()
  })
  test('cannot be judged on a server with random answers', () => {
    randomly = true
    return expect(asked((row) => row)).resolves.toBeDefined()
  })
})

const prepared = (protocol: ProtocolName, given: Answer, items = true) => {
  answer = given
  return protocolFor(protocol).prepare(
    url,
    'm',
    items ? payload : { kind: 'generated', seed: 1, count: 2 },
    signal,
  )
}

describe('Open Inference Protocol', () => {
  const y = { name: 'y', datatype: 'FP32', shape: [2, 1], data: [0.1, 0.2] }
  const good: Answer = ({ id }) => ({ model_name: 'm', id, outputs: [y] })
  test('a good answer', () =>
    expect(prepared('oip-v2', good)).resolves.toMatchObject({ path: '/v2/models/m/infer' }))
  test.each<[string, Answer, string]>([
    [
      'another model',
      (asked) => ({ ...(good(asked) as object), model_name: 'other' }),
      "but from the model 'other', not 'm'",
    ],
    [
      'another id',
      (asked) => ({ ...(good(asked) as object), id: 'no-such' }),
      "but to the request 'no-such', not '0'",
    ],
    [
      'another output',
      () => ({ outputs: [{ ...y, name: 'z' }] }),
      "output 'z' is none of the model's, which are y",
    ],
    [
      'no data',
      () => ({ outputs: [{ name: 'y', datatype: 'BOOL', shape: [9] }] }),
      "'y' has the shape [9] and 0 values",
    ],
    [
      'another type',
      () => ({ outputs: [{ ...y, datatype: 'INT64', data: [1, 2] }] }),
      "'y' is INT64, and the model's is FP32",
    ],
    [
      'half of the items',
      () => ({ outputs: [{ ...y, shape: [1, 1], data: [0.1] }] }),
      "'y' has 1 items, and the request 2",
    ],
    ['null', () => ({ outputs: [{ ...y, data: [null, 0.2] }] }), "'y' is FP32 and holds null at 0"],
    [
      'NaN',
      () => '{"outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 1], "data": [NaN, 1]}]}',
      'NaN or Infinity',
    ],
  ])('%s', async (_, wrong, words) => {
    await expect(prepared('oip-v2', wrong)).rejects.toThrow(words)
  })
})

describe('TensorFlow Serving', () => {
  test('a good answer', () =>
    expect(prepared('tfserving', () => ({ predictions: [[0.1], [0.2]] }))).resolves.toBeDefined())
  test.each<[string, Answer, string]>([
    ['half of the items', () => ({ predictions: [[0.1]] }), 'with 1 predictions for 2 instances'],
    [
      'another output',
      () => ({ predictions: [{ z: 1 }, { z: 2 }] }),
      "'z' is none of the model's, which are y",
    ],
    [
      'an error in an item',
      () => ({ predictions: [[0.1], { error: 'no batch' }] }),
      `with the error of 'predictions'[1] "no batch"`,
    ],
    ['null', () => ({ predictions: [[0.1], [null]] }), 'holds null in place of a number'],
    ['words', () => ({ predictions: [['a'], ['b']] }), `'y' is FP32 and holds "a" at 0`],
    ['truths', () => ({ predictions: [[true], [false]] }), "'y' is FP32 and holds true at 0"],
    [
      'objects',
      () => ({ predictions: [[{ y: 1 }], [{ y: 2 }]] }),
      `'y' is FP32 and holds {"y":1} at 0`,
    ],
    [
      'another shape',
      () => ({
        predictions: [
          [0.1, 0.2],
          [0.1, 0.2],
        ],
      }),
      "'y' has the shape [2, 2], and the model's is [-1, 1]",
    ],
    [
      'ragged rows',
      () => ({ predictions: [[0.1], [0.1, 0.2]] }),
      "'y' has the shape [2, 1] and 3 values",
    ],
    [
      'an output missing in a row',
      () => ({ predictions: [{ y: [1] }, {}] }),
      "'y' is FP32 and holds undefined at 1",
    ],
  ])('%s', async (_, wrong, words) => {
    await expect(prepared('tfserving', wrong)).rejects.toThrow(words)
  })

  const twoOutputs = () => {
    const label = { dtype: 'DT_STRING', tensor_shape: { dim: [{ size: '-1' }] } }
    const outputs = { ...signature.outputs, label }
    return { ...metadata, [metadataPath]: withOutputs(outputs), outputs }
  }
  const rows = (...of: object[]) => ({ predictions: of })
  test('several outputs by name', async () => {
    served = twoOutputs()
    const said = rows({ y: [1], label: 'a' }, { y: [2], label: { b64: 'YQ==' } })
    await expect(prepared('tfserving', () => said)).resolves.toBeDefined()
  })
  test('several outputs in columns, of a model without a batch', async () => {
    const x = { dtype: 'DT_FLOAT', tensor_shape: { dim: [{ size: '3' }] } }
    served = { ...metadata, [metadataPath]: withOutputs(twoOutputs().outputs, { x }) }
    const said = (label: unknown) => ({ outputs: { y: [[1], [2]], label } })
    await expect(prepared('tfserving', () => said(['a', 'b']), false)).resolves.toBeDefined()
    const words = "'label' has the shape [1, 2], and the model's is [-1]"
    await expect(prepared('tfserving', () => said([['a', 'b']]), false)).rejects.toThrow(words)
  })
  test.each<[string, object, string]>([
    [
      'without names',
      { predictions: [[1], [2]] },
      'without the names of its outputs, which are y, label',
    ],
    ['one of them', rows({ y: [1] }, { y: [2] }), "without its output 'label'"],
    [
      'numbers for texts',
      rows({ y: [1], label: 7 }, { y: [2], label: 8 }),
      "'label' is STRING and holds 7 at 0",
    ],
  ])('several outputs, %s', async (_, said, words) => {
    served = twoOutputs()
    await expect(prepared('tfserving', () => said)).rejects.toThrow(words)
  })
})

describe('plain JSON', () => {
  test('a good answer', () =>
    expect(prepared('json', () => ({ score: 0.1 }), false)).resolves.toBeDefined())
  test('an error in one of the items', async () => {
    await expect(
      prepared('json', () => ({ results: [{ ok: 1 }, { status: 500 }] }), false),
    ).rejects.toThrow("status of 'results'[1] 500")
  })
})

describe('OpenAI', () => {
  const stream = (model: string) =>
    `data: ${JSON.stringify({ model, choices: [{ delta: { content: 'a' }, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`
  test.each(['m', 'folder/m', 'M:latest'])('a good answer of %s', (name) =>
    expect(prepared('openai', () => stream(name), false)).resolves.toBeDefined(),
  )
  test('another model', async () => {
    await expect(prepared('openai', () => stream('qwen'), false)).rejects.toThrow(
      "from the model 'qwen', not 'm'",
    )
  })
  const counted = (tokens: number) =>
    stream('m').replace(
      'data: [DONE]',
      `data: {"usage": {"completion_tokens": ${tokens}}}\n\ndata: [DONE]`,
    )
  test('a token without text', () =>
    expect(prepared('openai', () => counted(3), false)).resolves.toBeDefined())
  test.each([
    [
      'more tokens than were asked for',
      1_000_000,
      /its usage counts 1000000 tokens in a text of 1 bytes, although at most \d+ were requested/,
    ],
    ['no tokens', 0, /its usage counts no tokens, although its stream has some/],
  ])('%s', async (_, tokens, words) => {
    await expect(prepared('openai', () => counted(tokens), false)).rejects.toThrow(words)
  })
})

describe('answers under load fit their requests', () => {
  const meantBy = async (protocol: ProtocolName, good: Answer, items = true) => {
    const { findFault, bodies } = await prepared(protocol, good, items)
    return (said: unknown, body = 1) =>
      findFault!(bodies[body]!, Buffer.from(typeof said === 'string' ? said : JSON.stringify(said)))
  }
  test('of the Open Inference Protocol', async () => {
    const y = { name: 'y', datatype: 'FP32', shape: [2, 1], data: [0.1, 0.2] }
    const fault = await meantBy('oip-v2', ({ id }) => ({ model_name: 'm', id, outputs: [y] }))
    expect(fault({ model_name: 'm', id: '1', outputs: [y] })).toBeUndefined()
    expect(fault({ model_name: 'other', id: '1', outputs: [y] })).toBe(
      "from the model 'other', not 'm'",
    )
    expect(fault({ model_name: 'm', id: '0', outputs: [y] })).toBe("to the request '0', not '1'")
    expect(fault('{"outputs": ')).toBe('not with JSON')
  })
  test('of TensorFlow Serving', async () => {
    const fault = await meantBy('tfserving', () => ({ predictions: [[0.1], [0.2]] }))
    expect(fault({ predictions: [[1], [2]] })).toBeUndefined()
    expect(fault({ predictions: [[1]] })).toBe('with 1 predictions for 2 instances')
    expect(fault({ predictions: [['a'], ['b']] })).toBe(`its output 'y' is FP32 and holds "a" at 0`)
  })
  test('of plain JSON', async () => {
    const fault = await meantBy('json', () => ({ score: 1 }), false)
    expect(fault({ score: 2 })).toBeUndefined()
    expect(fault({ error: 'no' })).toBe('with the error "no"')
  })
  test('of a stream', async () => {
    const say = (model: string) =>
      `data: ${JSON.stringify({ model, choices: [{ text: 'a', finish_reason: 'stop' }] })}\n\n`
    const fault = await meantBy('openai', () => say('m'), false)
    expect(fault(say('m'))).toBeUndefined()
    expect(fault(say('qwen'))).toBe("from the model 'qwen', not 'm'")
    expect(fault('data: {"choices": [{"text": "a"}]}\n\n')).toMatch(
      /^its stream ends without \[DONE\]/,
    )
  })
})

describe('gRPC', () => {
  const floats = (...values: number[]) => Buffer.from(Float32Array.from(values).buffer)
  const minusOne = Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
  const tensor = (name: string, datatype: string, ...shape: (number | Buffer)[]) =>
    wire(
      [1, name],
      [2, datatype],
      [
        3,
        Buffer.concat(shape.map((size) => (typeof size === 'number' ? Buffer.from([size]) : size))),
      ],
    )
  const oip = '/inference.GRPCInferenceService/'
  const grpc = async (given: Handler) => {
    const known = await startGrpcServer({
      [`${oip}ModelMetadata`]: () =>
        wire(
          [1, 'm'],
          [4, tensor('x', 'FP32', minusOne, 3)],
          [5, tensor('y', 'FP32', minusOne, 1)],
        ),
      [`${oip}ModelInfer`]: given,
    })
    try {
      return await protocolFor('grpc-v2').prepare(known.url, 'm', payload, signal)
    } finally {
      known.stop()
    }
  }
  const outputs = [5, tensor('y', 'FP32', 2, 1)] as const
  test('a good answer', () =>
    expect(grpc(() => wire([1, 'm'], [3, '0'], outputs, [6, floats(1, 2)]))).resolves.toMatchObject(
      { expect: 'y' },
    ))
  test('answers under load', async () => {
    const { findFault, bodies } = await grpc(() => wire([1, 'm'], outputs, [6, floats(1, 2)]))
    const fault = (...fields: Field[]) => findFault!(bodies[1]!, wire(...fields))
    expect(fault([1, 'm'], [3, '1'], outputs, [6, floats(1, 2)])).toBeUndefined()
    expect(fault([1, 'other'], outputs, [6, floats(1, 2)])).toBe("from the model 'other', not 'm'")
    expect(fault([3, '0'], outputs, [6, floats(1, 2)])).toBe("to the request '0', not '1'")
    expect(fault(outputs, [6, floats(1, Number.NaN)])).toBe("its output 'y' holds NaN at 1")
  })
  test.each<[string, Handler, string]>([
    [
      'another model',
      () => wire([1, 'other'], outputs, [6, floats(1, 2)]),
      "from the model 'other', not 'm'",
    ],
    [
      'another id',
      () => wire([1, 'm'], [3, 'no-such'], outputs, [6, floats(1, 2)]),
      "to the request 'no-such', not '0'",
    ],
    [
      'another output',
      () => wire([1, 'm'], [5, tensor('z', 'FP32', 2, 1)], [6, floats(1, 2)]),
      "'z' is none of the model's",
    ],
    [
      'no data',
      () => wire([1, 'm'], [5, tensor('y', 'BOOL', 9)]),
      "'y' has the shape [9] and 0 values",
    ],
    [
      'too little data',
      () => wire([1, 'm'], outputs, [6, floats(1)]),
      "'y' has the shape [2, 1] and 1 values",
    ],
    ['NaN', () => wire([1, 'm'], outputs, [6, floats(1, Number.NaN)]), "'y' holds NaN at 1"],
  ])('%s', async (_, wrong, words) => {
    await expect(grpc(wrong)).rejects.toThrow(words)
  })

  const tf = '/tensorflow.serving.PredictionService/'
  const entry = (key: string, value: Buffer) => wire([1, key], [2, value])
  const dimension = (size: number) =>
    size < 0 ? Buffer.concat([Buffer.from([8]), minusOne]) : wire([1, size])
  const shape = (...sizes: number[]) => wire(...sizes.map((size) => [2, dimension(size)] as const))
  const info = (...sizes: number[]) => wire([2, 1], [3, shape(...sizes)])
  const predict = async (given: Handler) => {
    const signature = wire([1, entry('x', info(-1, 3))], [2, entry('y', info(-1, 1))])
    const packed = wire([2, wire([1, entry('serving_default', signature)])])
    const known = await startGrpcServer({
      [`${tf}GetModelMetadata`]: () =>
        wire([1, wire([1, 'm'])], [2, entry('signature_def', packed)]),
      [`${tf}Predict`]: given,
    })
    try {
      return await protocolFor('tfserving-grpc').prepare(known.url, 'm', payload, signal)
    } finally {
      known.stop()
    }
  }
  const predicted = (name: string, sizes: number[], values: Buffer, model = 'm') =>
    wire([1, entry(name, wire([1, 1], [2, shape(...sizes)], [4, values]))], [2, wire([1, model])])
  test('a good answer of TensorFlow Serving', () =>
    expect(predict(() => predicted('y', [2, 1], floats(1, 2)))).resolves.toMatchObject({
      expect: 'y',
    }))
  test.each<[string, Handler, string]>([
    [
      'another model',
      () => predicted('y', [2, 1], floats(1, 2), 'other'),
      "from the model 'other', not 'm'",
    ],
    ['another output', () => predicted('z', [2, 1], floats(1, 2)), "'z' is none of the model's"],
    [
      'half of the items',
      () => predicted('y', [1, 1], floats(1)),
      "'y' has 1 items, and the request 2",
    ],
    [
      'no data',
      () => predicted('y', [2, 1], Buffer.alloc(0)),
      "'y' has the shape [2, 1] and 0 values",
    ],
    [
      'infinity',
      () => predicted('y', [2, 1], floats(1, Number.POSITIVE_INFINITY)),
      "'y' holds Infinity at 1",
    ],
  ])('TensorFlow Serving: %s', async (_, wrong, words) => {
    await expect(predict(wrong)).rejects.toThrow(words)
  })
})
