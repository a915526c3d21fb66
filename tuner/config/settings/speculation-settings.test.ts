import { expect, test } from 'vitest'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { listNotices } from '../../loop/notices.ts'
import { estimateAll } from '../../problem/estimate-table.ts'
import { createProblem } from '../../problem/problem.ts'
import { loadExperimentDocument } from '../load-experiment.ts'
import { resolveMeasuredWith } from '../measured-with.ts'
import { machine, problemsOf, useWorkspace, valuesOf } from '../testing/workspace.ts'
import { describeAcceptance } from './speculation-settings.ts'

const { load, path } = useWorkspace()
const modelled = { model: 'llama-3.1-8b', slo: 'tpot<20ms', backend: 'simulated', gpus: 'H100' }
const started = { model: 'meta-llama/Llama-3.1-8B', slo: 'tpot<20ms' }
const whatIsWrong = (flags: Record<string, unknown>) =>
  problemsOf(() => load(flags)).map(({ what }) => what)

test('tokens are tuned, method and model are said once, and an experiment of a store is the same', () => {
  const pin = ['speculativeMethod=eagle3', 'speculativeModel=org/eagle']
  const experiment = load({
    ...modelled,
    param: ['speculativeTokens=0,2,4'],
    pin,
    acceptance: '65%',
  })
  expect(valuesOf(experiment, 'speculativeTokens')).toEqual([0, 2, 4])
  expect(experiment.pins).toMatchObject({
    speculativeMethod: 'eagle3',
    speculativeModel: 'org/eagle',
  })
  expect(experiment.predictor).toMatchObject({ kind: 'builtin', acceptance: 0.65 })
  expect(
    loadExperimentDocument(experiment.document, experiment.name, { cwd: path(), machine }),
  ).toMatchObject({
    predictor: experiment.predictor,
    space: { parameters: experiment.space.parameters },
  })
})

test('every figure of a modelled server says what it assumes', () => {
  const param = ['speculativeTokens=0,4']
  const experiment = load({ ...modelled, param })
  const assumed =
    /ASSUMPTION: each draft token is accepted independently with probability 0.3 \(ngram\)/
  expect(listNotices(experiment, 'simulated').join()).toMatch(assumed)
  const { caveat } = estimateAll(experiment, createProblem(experiment, defaultPriceBook))
  expect(caveat).toMatch(assumed)
  expect(caveat).not.toMatch(/\.$/)
  expect(describeAcceptance(load({ ...modelled, param, acceptance: '0.5' })).join()).toContain(
    'with probability 0.5,',
  )
  expect(describeAcceptance(load(modelled))).toEqual([])
  expect(describeAcceptance(load({ ...modelled, param: ['speculativeTokens=0'] }))).toEqual([])
  const measured = (speculativeTokens: number) =>
    resolveMeasuredWith(experiment, 'simulated', { gpu: 'H100', speculativeTokens })
  expect([measured(0).acceptance, measured(4).acceptance]).toEqual([undefined, 0.3])
  // Of a server that runs for real nothing is assumed.
  expect(describeAcceptance(load({ ...started, server: 'vllm', param }))).toEqual([])
})

test.each<[string, Record<string, unknown>, string]>([
  [
    'a method that the server does not have',
    { server: 'vllm', pin: ['speculativeMethod=draft', 'speculativeModel=org/one'] },
    'vllm does not support speculativeMethod draft',
  ],
  [
    'no weights that draft',
    { server: 'sglang', pin: ['speculativeMethod=eagle3'] },
    'speculativeMethod eagle3 needs a draft model',
  ],
])('started for real: %s', (_, flags, what) => {
  expect(whatIsWrong({ ...started, param: ['speculativeTokens=0,4'], ...flags })).toEqual([what])
})

test.each<[string, Record<string, unknown>, string]>([
  [
    'a method that what deploys does not have',
    { pin: ['speculativeMethod=draft'] },
    'vllm does not support speculativeMethod draft',
  ],
  [
    'a draft model that is not known',
    { server: 'sglang', pin: ['speculativeMethod=draft', 'speculativeModel=org/unheard-of'] },
    "speculativeModel: unknown model architecture 'unheard-of'",
  ],
  [
    'a method and nothing drafted',
    { param: [], pin: ['speculativeMethod=ngram'] },
    'speculativeMethod has no effect, because no tokens are drafted',
  ],
  [
    'a name that is no method',
    { pin: ['speculativeMethod=medusa'] },
    "speculativeMethod: unknown speculativeMethod 'medusa'",
  ],
])('modelled: %s', (_, flags, what) => {
  expect(whatIsWrong({ ...modelled, param: ['speculativeTokens=0,4'], ...flags })).toEqual([
    expect.stringContaining(what),
  ])
})

test('it means nothing of what is no language model, and an acceptance nothing of what runs for real', () => {
  expect(
    whatIsWrong({ model: 'bert', slo: '50ms', param: ['speculativeTokens=0,4'] }).join(),
  ).toMatch(/speculativeTokens/)
  expect(whatIsWrong({ ...started, server: 'vllm', acceptance: '0.5' })).toEqual([
    "'acceptance' does not apply to a command predictor",
  ])
  expect(whatIsWrong({ model: 'bert', slo: '50ms', acceptance: '0.5' })).toEqual([
    'acceptance applies only to a simulated or emulated language model',
  ])
})

test('modelled, EAGLE-3 follows from the model itself, and servers differ in what they have', () => {
  const flags = { ...modelled, param: ['speculativeTokens=0,4'] }
  expect(() => load({ ...flags, pin: ['speculativeMethod=eagle3'] })).not.toThrow()
  expect(() =>
    load({
      ...flags,
      server: 'sglang',
      pin: ['speculativeMethod=draft', 'speculativeModel=llama-3.2-1b'],
    }),
  ).not.toThrow()
})
