import { describe, expect, test } from 'vitest'
import { createLlmRequests } from '../../problem/llm-requests.ts'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, useWorkspace } from '../testing/workspace.ts'

const { loadFile } = useWorkspace()
const withPayload = (...lines: string[]) =>
  `model: llama-3.1-8b\nslo: ttft<1s\nload:\n  payload:\n${lines.map((line) => `    ${line}\n`).join('')}`
const two = withPayload(
  'classes:',
  '  chat: {share: 70%, inputTokens: 300, outputTokens: 200}',
  "  summary: {share: 30%, inputTokens: 'normal:4000,500', outputTokens: 100}",
)

test('requests are of the classes, as often as their shares say, and the same again from the store', () => {
  const experiment = loadFile(two)
  const requests = createLlmRequests(experiment.load.payload)
  const chats = requests.filter(
    ({ promptTokens, outputTokens }) => promptTokens === 300 && outputTokens === 200,
  )
  const summaries = requests.filter(
    ({ promptTokens, outputTokens }) => promptTokens > 1500 && outputTokens === 100,
  )
  expect([requests.length, chats.length, summaries.length]).toEqual([2048, 1434, 614])
  expect(experiment.document.load).toMatchObject({
    payload: {
      classes: {
        chat: { share: '70%', inputTokens: '300', outputTokens: '200' },
        summary: { share: '30%', inputTokens: 'normal:4000,500', outputTokens: '100' },
      },
    },
  })
  const again = loadExperimentDocument(experiment.document, 'e-1', { cwd: '/', machine })
  expect(again.load).toEqual(experiment.load)
})

describe('SLOs of their own', () => {
  const ofChat = (rest: string, slo = 'slo: p90 ttft<2s') =>
    two
      .replace('slo: ttft<1s', slo)
      .replace('outputTokens: 200}', `outputTokens: 200, slo: ${rest}}`)
  const chat = (metric: string, limitMs: number) => ({ metric, limitMs, requestClass: 'chat' })

  test('hold beside that of the classes without, and come back from the store', () => {
    const experiment = loadFile(ofChat('{ttft: 300ms, tpot: 30ms}'))
    const limits = [{ metric: 'ttft', limitMs: 2000 }, chat('ttft', 300), chat('tpot', 30)]
    expect(experiment.slo).toEqual({
      percentile: 0.9,
      limitMs: 2000,
      maxErrorRate: 0.001,
      limits,
      classes: ['chat', 'summary'],
    })
    expect(experiment.document).toMatchObject({
      slo: { percentile: 'p90', metric: 'ttft', limit: '2s' },
      load: { payload: { classes: { chat: { slo: { ttft: '300ms', tpot: '30ms' } } } } },
    })
    expect(loadExperimentDocument(experiment.document, 'e-1', { cwd: '/', machine }).slo).toEqual(
      experiment.slo,
    )
    expect(loadFile(ofChat("'ttft<300ms tpot<30ms'")).slo).toEqual(experiment.slo)
  })

  test('without any, each class keeps the one SLO by itself', () => {
    const { slo } = loadFile(two)
    expect(slo).toEqual({
      percentile: 0.99,
      limitMs: 1000,
      maxErrorRate: 0.001,
      metric: 'ttft',
      classes: ['chat', 'summary'],
    })
  })

  test('of every class need no other', () => {
    const each = ofChat('{ttft: 300ms}', 'slo: {percentile: p90}').replace(
      'outputTokens: 100}',
      'outputTokens: 100, slo: 20s}',
    )
    expect(loadFile(each).slo).toMatchObject({
      percentile: 0.9,
      limits: [chat('ttft', 300), { metric: 'e2e', limitMs: 20_000, requestClass: 'summary' }],
    })
    expect(
      problemLines(() => loadFile(each.replace('{percentile: p90}', 'ttft<1s'))).join(),
    ).toMatch(/every class has its own/)
  })

  test.each([
    [ofChat("'p95 ttft<300ms'"), /a class with a percentile/],
    [ofChat('{ttft: fast}'), /chat.slo/],
    [ofChat('{ttft: 300ms}', 'slo: {percentile: p90}'), /no SLO for summary/],
  ])('%j is refused', (text, message) => {
    expect(problemLines(() => loadFile(text)).join('\n')).toMatch(message)
  })
})

test('what is wrong with them is told all at once, each at its line', () => {
  const text = withPayload(
    'inputTokens: 512',
    'turns: 3',
    'classes:',
    '  chat: {share: 60%, inputTokens: 300, outputTokens: 200}',
    '  rare: {share: 0.001%, inputTokens: 300, outputTokens: 200}',
  )
  const lines = problemLines(() => loadFile(text))
  expect(lines).toHaveLength(4)
  expect(lines[0]).toMatch(/:5.*inputTokens and classes exclude each other/)
  expect(lines[1]).toMatch(/:6.*turns and classes exclude each other/)
  expect(lines[2]).toMatch(/:7.*the shares of the classes add up to 60.001 %/)
  expect(lines[3]).toMatch(/:9.*0.001 % of 2048 requests is less than one request/)
})

test.each([
  [['33%', '33%', '33%'], undefined],
  [['17%', '17%', '17%', '17%', '17%', '17%'], undefined],
  [['50%', '49%'], undefined],
  [['33%', '33%', '32%'], '98 %'],
  [['50%', '48%'], '98 %'],
  [['99%'], '99 %'],
])('shares %j are accepted as rounded to whole per cent, or reported: %s', (shares, sum) => {
  const classes = shares.map(
    (share, i) => `  c${i}: {share: ${share}, inputTokens: 300, outputTokens: 200}`,
  )
  const text = withPayload('classes:', ...classes)
  if (sum === undefined) expect(() => loadFile(text)).not.toThrow()
  else
    expect(problemLines(() => loadFile(text)).join('\n')).toContain(
      `the shares of the classes add up to ${sum}`,
    )
})

test('a class that cannot be read is told once', () => {
  const lines = problemLines(() => loadFile(two.replace("'normal:4000,500'", 'long')))
  expect(lines.filter((line) => line.includes('shares'))).toEqual([])
  expect(lines.join('\n')).toMatch(/:7:.*'long' is not a length in tokens/)
})

test.each([
  ['model: llama-3.1-8b\nslo: ttft<1s\nload: {payload: {classes: {}}}\n', 'classes is empty'],
  [
    'model: bert\nslo: 50ms\nload: {payload: {classes: {a: {share: 100%, inputTokens: 3, outputTokens: 2}}}}\n',
    'language models',
  ],
  [withPayload('classes: {a: {share: 100%, inputTokens: 3}}'), 'outputTokens'],
])('%j is refused', (text, message) => {
  expect(problemLines(() => loadFile(text)).join('\n')).toContain(message)
})
