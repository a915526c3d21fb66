import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Target } from '../../profiler/model/target.ts'
import type { AnswerClient, ParsedAnswer } from '../../profiler/protocols/protocol.ts'
import type { Configuration } from '../../search/types.ts'
import { registerSecret } from '../secrets.ts'
import type { Launcher, Predictor } from '../types.ts'
import { type AnswerRules, withCheckedAnswers } from './checked-answers.ts'
import { GoldenStore } from './golden-store.ts'
import type { PredictorTemplate } from './template.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-golden-'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

const { signal } = new AbortController()
const first: AnswerRules = { expect: [], golden: 'first' }
const command: PredictorTemplate = {
  kind: 'command',
  model: 'm',
  command: ['serve'],
  protocol: 'oip-v2',
}
const builtin: PredictorTemplate = {
  kind: 'builtin',
  model: 'bert',
  engine: 'auto',
  variants: { small: { model: 'distilbert' }, int8: { values: { precision: 'int8' } } },
}

/** Answers of a configuration to the number of a request. */
type Answers = (configuration: Configuration, body: number) => unknown
interface Served {
  readonly launcher: Launcher
  readonly stopped: number[]
  asked: number
  /** Numbers of the requests that were asked, and what was waited for, ms. */
  readonly bodies: number[]
  readonly slept: number[]
}

interface More {
  /** What the bodies of the requests say, by number. */
  readonly bodies?: readonly unknown[]
  /** Whether answers are tensors, in which no time stands. */
  readonly tensors?: boolean
  /** How long each answer takes, ms of a clock on which waiting takes no time. */
  readonly answerMs?: number
  /** What is wrong with an answer. */
  readonly findFault?: (answer: { readonly model?: string }) => string | undefined
}

/** Predictors of which each answers as told, without any server. */
function serving(
  answers: Answers,
  rules: AnswerRules,
  template = command,
  store = new GoldenStore(),
  more: More = {},
): Served {
  const { bodies: texts = [0, 1, 2, 3], tensors = true, answerMs = 0, findFault } = more
  const served: Served = {
    launcher: undefined as unknown as Launcher,
    stopped: [],
    asked: 0,
    bodies: [],
    slept: [],
  }
  const configurations: Configuration[] = []
  let nowMs = 5_000
  const clock = {
    now: () => nowMs,
    sleep: async (ms: number) => {
      served.slept.push(ms)
      nowMs += ms
    },
  }
  const answerClient: AnswerClient = {
    isResultFromModelOnly: tensors,
    fetch: async (target, body) => {
      served.asked++
      served.bodies.push(body)
      nowMs += answerMs
      const answer = answers(configurations[Number(target.path)]!, body)
      if (answer === 'refused') throw new Error('503')
      return Buffer.from(JSON.stringify(answer))
    },
    parse: async (answer) => answered(JSON.parse(Buffer.from(answer).toString())),
    interpret: async (document) => answered(document),
  }
  const inner: Launcher = {
    name: 'fake',
    sweep: async () => undefined,
    launch: async (configuration, number): Promise<Predictor> => {
      configurations[number] = configuration
      const bodies = texts.map((body) => ({
        contentType: 'application/json',
        body: JSON.stringify({ body, size: configuration.imageSize }),
      }))
      const target: Target = {
        kind: 'http',
        url: 'http://h',
        path: String(number),
        headers: {},
        bodies,
        timeoutMs: 1_000,
      }
      const meant = findFault && {
        findFault: (_: unknown, answer: Uint8Array) =>
          findFault(JSON.parse(Buffer.from(answer).toString())),
      }
      const stop = async () => void served.stopped.push(number)
      return {
        target: { ...target, ...meant },
        protocol: 'oip-v2',
        provenance: 'measured',
        isolation: '',
        logPath: '/log',
        logTail: () => '',
        usage: async () => ({}),
        stop,
      }
    },
  }
  return Object.assign(served, {
    launcher: withCheckedAnswers(inner, { rules, template, answerClient, store, clock }),
  })
}
const answered = (document: unknown): ParsedAnswer => ({ document, result: document })
const right: Answers = (_, body) => ({ y: body + 0.5 })
const brokenAt8: Answers = ({ batch }, body) => ({ y: (batch === 8 ? 4 - body : body) + 0.5 })

test('what answers like the first configuration is measured, what does not cannot serve and is stopped', async () => {
  const { launcher, stopped } = serving(brokenAt8, first)
  await launcher.launch({ batch: 1 }, 1, signal)
  await launcher.launch({ batch: 4 }, 2, signal)
  await expect(launcher.launch({ batch: 8 }, 3, signal)).rejects.toMatchObject({
    name: 'InfeasibleError',
    reason: 'answers-differ',
    message: expect.stringContaining('request 0, y: 4.5 in place of 0.5, the answer of trial 1'),
    logPath: '/log',
  })
  expect(stopped).toEqual([3])
})

test('golden answers outlive the run that took them, private', async () => {
  const path = join(folder, 'e', 'golden-answers.json')
  await serving(right, first, command, new GoldenStore(path)).launcher.launch(
    { batch: 1 },
    1,
    signal,
  )
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, 'utf8')).toContain('trial 1')
  const resumed = serving(brokenAt8, first, command, new GoldenStore(path))
  await expect(resumed.launcher.launch({ batch: 8 }, 2, signal)).rejects.toMatchObject({
    reason: 'answers-differ',
  })
})

const entry = {
  source: 'trial 1',
  configuration: {},
  random: [],
  answers: [{ body: 0, leaves: { y: [0.5] } }],
}
test.each(
  [
    {},
    ['key'],
    [[1, entry]],
    [['key', {}]],
    [['key', 'trial 1']],
    [['key', { ...entry, source: 1 }]],
    [['key', { ...entry, configuration: undefined }]],
    [['key', { ...entry, random: 'y' }]],
    [['key', { ...entry, answers: {} }]],
    [['key', { ...entry, answers: [null] }]],
    [['key', { ...entry, answers: [...entry.answers, { body: 1 }] }]],
    [['key', { ...entry, answers: [{ body: 0, leaves: { y: [0.5], z: 1 } }] }]],
    [
      ['key', entry],
      ['other', {}],
    ],
  ]
    .map((damaged) => JSON.stringify(damaged))
    .concat('{'),
)('a damaged file of them is named, and nothing started stays: %s', async (text) => {
  const path = join(folder, 'golden-answers.json')
  writeFileSync(path, text)
  const { launcher, stopped } = serving(right, first, command, new GoldenStore(path))
  await expect(launcher.launch({}, 1, signal)).rejects.toMatchObject({
    message: expect.stringContaining(path),
    final: 'experiment',
  })
  expect(stopped).toEqual([1])
})

test('a whole file of them is read', async () => {
  const path = join(folder, 'golden-answers.json')
  writeFileSync(path, JSON.stringify([['key', entry]]))
  const { launcher } = serving(right, first, command, new GoldenStore(path))
  await launcher.launch({ batch: 1 }, 1, signal)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toHaveLength(2)
})

test('of several that start at once one gives the golden answers', async () => {
  const { launcher } = serving(brokenAt8, first)
  const launched = await Promise.allSettled(
    [1, 8, 1].map((batch, i) => launcher.launch({ batch }, i + 1, signal)),
  )
  expect(launched.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

test('a first configuration that does not answer gives none; the next one does', async () => {
  const { launcher } = serving(
    (configuration, body) =>
      configuration.batch === 1 ? 'refused' : brokenAt8(configuration, body),
    first,
  )
  await launcher.launch({ batch: 1 }, 1, signal)
  await launcher.launch({ batch: 2 }, 2, signal)
  await expect(launcher.launch({ batch: 8 }, 3, signal)).rejects.toThrow('the answer of trial 2')
})

describe('what may answer otherwise', () => {
  const differs: Answers = (configuration, body) => ({
    y: body + JSON.stringify(configuration).length,
  })
  test.each<[string, PredictorTemplate, Configuration, boolean]>([
    ['another batch', builtin, { batchSize: 16 }, false],
    ['another length of texts', builtin, { sequenceLength: 64 }, true],
    ['another size of pictures', builtin, { imageSize: 64 }, true],
    ['a variant that is another model', builtin, { variant: 'small' }, true],
    ['a variant that is the same model in another precision', builtin, { variant: 'int8' }, false],
    ['a variant of a command', command, { variant: 'small' }, true],
  ])('%s: %#', async (_, template, configuration, may) => {
    const { launcher } = serving(differs, first, template)
    await launcher.launch({}, 1, signal)
    const second = launcher.launch(configuration, 2, signal)
    await (may
      ? expect(second).resolves.toBeDefined()
      : expect(second).rejects.toMatchObject({ reason: 'answers-differ' }))
  })
})

test('answers that the user gives are held against the first configuration too', async () => {
  const golden = {
    file: 'golden.jsonl',
    documents: [0, 1, 2, 3].map((body) => ({ y: body + 0.5 })),
  }
  const { launcher } = serving(brokenAt8, { expect: [], golden })
  await expect(launcher.launch({ batch: 8 }, 1, signal)).rejects.toThrow(
    'the answer of golden.jsonl',
  )
  await launcher.launch({ batch: 1 }, 2, signal)
})

test('a first configuration that answers otherwise than the user expects gives no golden answers', async () => {
  const rules: AnswerRules = { expect: [{ path: 'y', value: 2, tolerance: 2 }], golden: 'first' }
  // One answer of four is another than expected.
  const { launcher } = serving(
    ({ batch }, body) => ({ y: batch === 1 && body === 2 ? 9 : body + 0.5 }),
    rules,
  )
  await expect(launcher.launch({ batch: 1 }, 1, signal)).rejects.toThrow(
    'request 2 was answered, but y is 9',
  )
  const { answers } = await launcher.launch({ batch: 2 }, 2, signal)
  expect(answers!.spec.golden!.source).toBe('trial 2')
})

test('fewer answers of the user than requests: as many are asked', async () => {
  const golden = { file: 'golden.jsonl', documents: [{ y: 0.5 }, { y: 1.5 }] }
  const served = serving(right, { expect: [], golden })
  const { answers } = await served.launcher.launch({ batch: 1 }, 1, signal)
  expect([served.asked, answers!.bodies]).toEqual([2, [0, 1]])
  const more = serving(right, {
    expect: [],
    golden: { file: 'golden.jsonl', documents: Array(9).fill({ y: 0.5 }) },
  })
  await expect(more.launcher.launch({ batch: 1 }, 1, signal)).rejects.toThrow(
    'the answer of golden.jsonl',
  )
  expect(more.asked).toBe(4)
})

test('what the user expects', async () => {
  const rules: AnswerRules = { expect: [{ path: 'y', value: 2, tolerance: 2 }], golden: 'first' }
  const { launcher } = serving(({ batch }, body) => ({ y: batch === 8 ? 9 : body + 0.5 }), rules)
  await expect(launcher.launch({ batch: 8 }, 1, signal)).rejects.toThrow(
    'request 0 was answered, but y is 9, and 2 within 2 is expected',
  )
  await launcher.launch({ batch: 1 }, 2, signal)
})

test('nothing is compared where it is off, and what is no answer to the request cannot serve all the same', async () => {
  const findFault: More['findFault'] = (answer) =>
    answer.model === 'other' ? "from the model 'other'" : undefined
  const other: Answers = ({ batch }, body) => ({
    y: batch,
    ...(batch === 8 && body === 2 && { model: 'other' }),
  })
  const { launcher, stopped } = serving(other, { expect: [], golden: 'off' }, command, undefined, {
    findFault,
  })
  await launcher.launch({ batch: 1 }, 1, signal)
  const { answers, target } = await launcher.launch({ batch: 4 }, 2, signal)
  expect(answers!.spec.golden).toBeUndefined()
  await expect(launcher.launch({ batch: 8 }, 3, signal)).rejects.toMatchObject({
    reason: 'answers-differ',
    message: "request 2 was answered, but from the model 'other'",
    logPath: '/log',
  })
  expect(stopped).toEqual([3])
  const { onSample } = (target as Extract<Target, { kind: 'http' }>).sample!
  onSample!(1, Buffer.from('{"y": 5}'))
  expect(await answers!.fault()).toBeUndefined()
  onSample!(1, Buffer.from('{"y": 4, "model": "other"}'))
  expect(await answers!.fault()).toBe("request 1 was answered, but from the model 'other'")
})

test('answers of a load are held against them too', async () => {
  const { launcher } = serving(right, first)
  const { target, answers } = await launcher.launch({}, 1, signal)
  if (target.kind !== 'http') throw new Error('no HTTP target')
  expect(target.sample?.bodies).toEqual([0, 1, 2, 3])
  target.sample!.onSample!(2, Buffer.from('{"y": 2.5}'))
  expect(await answers!.fault()).toBeUndefined()
  target.sample!.onSample!(2, Buffer.from('{"y": 0.5}'))
  expect(await answers!.fault()).toContain('request 2, y: 0.5 in place of 2.5')
})

test('what a server repeats of a secret stands neither in the file nor in the verdict', async () => {
  registerSecret('planted-echo')
  const path = join(folder, 'golden-answers.json')
  const { launcher } = serving(
    ({ batch }) => ({ header: 'Bearer planted-echo', label: `${batch} planted-echo` }),
    first,
    command,
    new GoldenStore(path),
  )
  await launcher.launch({ batch: 1 }, 1, signal)
  await expect(launcher.launch({ batch: 8 }, 2, signal)).rejects.toThrow(
    '"8 [secret]" in place of "1 [secret]"',
  )
  expect(readFileSync(path, 'utf8')).not.toContain('planted-echo')
})

describe('which requests are asked', () => {
  const off: AnswerRules = { expect: [{ path: 'y', value: 0, tolerance: 1e6 }], golden: 'off' }
  const bodiesOf = async (bodies: readonly unknown[]) => {
    const served = serving(right, off, command, new GoldenStore(), { bodies })
    await served.launcher.launch({}, 1, signal)
    return served.bodies
  }

  test('eight that differ, from the first to near the last', async () => {
    expect(await bodiesOf(Array.from({ length: 20 }, (_, i) => i))).toEqual([
      0, 2, 5, 7, 10, 12, 15, 17,
    ])
    expect(await bodiesOf([1, 1, 2, 2, 1, 3])).toEqual([0, 2, 5])
  })

  test('of the first 512', async () => {
    const same = (n: number) => Array<number>(n).fill(0)
    expect(await bodiesOf([...same(512), 1])).toEqual([0])
    expect(await bodiesOf([...same(511), 1])).toEqual([0, 511])
  })
})

describe('the first configuration is asked', () => {
  test('one request after the other, all at once, and once more', async () => {
    const served = serving(right, first)
    await served.launcher.launch({}, 1, signal)
    expect(served.bodies).toEqual([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])
    expect(served.slept).toEqual([])
  })

  test('a second later where a time may stand in its answers', async () => {
    const slept = async (answerMs: number) => {
      const served = serving(right, first, command, new GoldenStore(), { tensors: false, answerMs })
      await served.launcher.launch({}, 1, signal)
      return served.slept
    }
    expect(await slept(100)).toEqual([1100 - 800])
    expect(await slept(200)).toEqual([0])
  })

  test('for no more requests than four seconds are enough for', async () => {
    const served = serving(right, first, command, new GoldenStore(), { answerMs: 2_000 })
    const { answers } = await served.launcher.launch({}, 1, signal)
    expect(served.bodies).toEqual([0, 1, 0, 1, 0, 1])
    expect(answers!.spec.golden!.answers.map(({ body }) => body)).toEqual([0, 1])
  })

  test('for no more answers than are held at once, and so is every other one', async () => {
    // Of 1 KiB in all, and each a little less than half of it.
    vi.stubEnv('TUNE_MAX_ANSWER_MIB', String(1 / 1024))
    const long: Answers = (_, body) => ({ y: body + 0.5, why: 'x'.repeat(450) })
    const served = serving(long, first)
    await served.launcher.launch({ batch: 1 }, 1, signal)
    expect(served.bodies).toEqual([0, 1, 0, 1, 0, 1])
    await served.launcher.launch({ batch: 2 }, 2, signal)
    expect(served.bodies.slice(6)).toEqual([0, 1])
  })

  test('and of a long text what tells it from others is kept, not all of it', async () => {
    const path = join(folder, 'golden-answers.json')
    const long = 'x'.repeat(100_000)
    const served = serving(
      ({ batch }) => ({ text: batch === 8 ? `${long}y` : long }),
      first,
      command,
      new GoldenStore(path),
    )
    await served.launcher.launch({ batch: 1 }, 1, signal)
    expect(statSync(path).size).toBeLessThan(4_000)
    await served.launcher.launch({ batch: 4 }, 2, signal)
    await expect(served.launcher.launch({ batch: 8 }, 3, signal)).rejects.toMatchObject({
      reason: 'answers-differ',
    })
  })

  test.each([
    ['at once', 4],
    ['the third time', 8],
  ])('and what it answers otherwise %s is left out, the first answer kept', async (_, from) => {
    let asked = 0
    const { launcher } = serving(
      (configuration, body) => ({
        y: body + 0.5,
        id: asked++ < from ? 'a' : 'b',
        size: configuration.batch,
      }),
      first,
    )
    const { answers } = await launcher.launch({ batch: 1 }, 1, signal)
    expect(answers!.spec.golden).toMatchObject({
      source: 'trial 1',
      random: ['id'],
      answers: [0, 1, 2, 3].map((body) => ({ body, leaves: { id: ['a'] } })),
    })
  })
})

test('a predictor that is right is what was launched, with the check of its answers', async () => {
  const { launcher, stopped } = serving(right, first, builtin)
  const { stop, ...launched } = await launcher.launch({ variant: 'int8' }, 1, signal)
  expect(launched).toMatchObject({
    protocol: 'oip-v2',
    provenance: 'measured',
    logPath: '/log',
    target: { url: 'http://h', path: '1' },
  })
  // As exact as the variant's precision is.
  expect(launched.answers!.spec).toMatchObject({
    bits: 8,
    configuration: { variant: 'int8' },
    golden: { bits: 8 },
  })
  await stop()
  expect(stopped).toEqual([1])
})

test('answers that the user gives are exact', async () => {
  const golden = {
    file: 'golden.jsonl',
    documents: [0, 1, 2, 3].map((body) => ({ y: body + 0.5 })),
  }
  const { answers } = await serving(right, { expect: [], golden }, builtin).launcher.launch(
    { variant: 'int8' },
    1,
    signal,
  )
  expect(answers!.spec.golden).toMatchObject({
    source: 'golden.jsonl',
    bits: 32,
    configuration: {},
    random: [],
  })
})

test('an interrupt is its own reason, whatever else failed', async () => {
  const path = join(folder, 'golden-answers.json')
  writeFileSync(path, '{')
  const reason = new Error('Ctrl-C')
  const { launcher, stopped } = serving(right, first, command, new GoldenStore(path))
  await expect(launcher.launch({}, 1, AbortSignal.abort(reason))).rejects.toBe(reason)
  expect(stopped).toEqual([1])
})
