import { expect, test } from 'vitest'
import { loadExperimentDocument } from '../load-experiment.ts'
import { bert, machine, problemLines, useWorkspace } from '../testing/workspace.ts'

const { load, loadFile, path, write } = useWorkspace()
const file = (warmUp: string) => `model: bert\nslo: 50ms\nload:\n  warmUp: ${warmUp}\n`

test('a number, a file, or all of it; read again as it was kept', () => {
  expect(load({ ...bert, warmUp: '100' }).load.warmUp).toEqual({ requests: 100 })
  expect(load(bert).load.warmUp).toBeUndefined()
  write('texts.txt', 'one\ntwo\n')
  const experiment = loadFile(file('{atOnce: 8, payload: texts.txt}'))
  expect(experiment.load.warmUp).toEqual({
    atOnce: 8,
    payload: { kind: 'texts', path: path('texts.txt'), seed: 1 },
  })
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(loadExperimentDocument(kept, 'bert-1', { cwd: '/', machine }).load.warmUp).toEqual(
    experiment.load.warmUp,
  )
})

test('what cannot be sent is named', () => {
  expect(problemLines(() => loadFile(file('none.jsonl')))).toEqual([
    expect.stringContaining('no payload file'),
  ])
  expect(problemLines(() => loadFile(file('{atOnce: 2}')))).toEqual([
    expect.stringContaining('no warm-up requests'),
  ])
  expect(problemLines(() => load({ ...bert, warmUp: '3', backend: 'simulated' }))).toEqual([
    expect.stringContaining('always warm'),
  ])
})
