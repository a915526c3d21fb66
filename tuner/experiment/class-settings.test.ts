import { expect, test } from 'vitest'
import { llmRequests } from '../backends/llm-requests.ts'
import { experimentFromDocument } from './load-experiment.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'

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
  const requests = llmRequests(experiment.load.payload)
  const chats = requests.filter(({ promptTokens, outputTokens }) => promptTokens === 300 && outputTokens === 200)
  const summaries = requests.filter(({ promptTokens, outputTokens }) => promptTokens > 1500 && outputTokens === 100)
  expect([requests.length, chats.length, summaries.length]).toEqual([2048, 1434, 614])
  expect(experiment.document.load).toMatchObject({
    payload: {
      classes: {
        chat: { share: '70%', inputTokens: '300', outputTokens: '200' },
        summary: { share: '30%', inputTokens: 'normal:4000,500', outputTokens: '100' },
      },
    },
  })
  const again = experimentFromDocument(experiment.document, 'e-1', { cwd: '/', machine })
  expect(again.load).toEqual(experiment.load)
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
  expect(lines[0]).toMatch(/:5.*inputTokens beside classes/)
  expect(lines[1]).toMatch(/:6.*turns beside classes/)
  expect(lines[2]).toMatch(/:7.*the shares of the classes come to 60.001 %/)
  expect(lines[3]).toMatch(/:9.*0.001 % of 2048 requests is none/)
})

test('a class that cannot be read is told once', () => {
  const lines = problemLines(() => loadFile(two.replace("'normal:4000,500'", 'long')))
  expect(lines.filter((line) => line.includes('shares'))).toEqual([])
  expect(lines.join('\n')).toMatch(/:7:.*'long' is no length in tokens/)
})

test.each([
  ['model: llama-3.1-8b\nslo: ttft<1s\nload: {payload: {classes: {}}}\n', 'no class'],
  ['model: bert\nslo: 50ms\nload: {payload: {classes: {a: {share: 100%, inputTokens: 3, outputTokens: 2}}}}\n', 'language models'],
  [withPayload('classes: {a: {share: 100%, inputTokens: 3}}'), 'outputTokens'],
])('%j is refused', (text, message) => {
  expect(problemLines(() => loadFile(text)).join('\n')).toContain(message)
})
