import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { renderSpec } from './index.ts'
import { type Serving, servingOf } from './serving.ts'
import {
  evidence,
  found,
  noGpu,
  ownCommand,
  quarter,
  serving,
  type Tree,
} from './spec-samples.contract.ts'
import type { SpecOptions } from './target.ts'
import { checkManifests } from './validate.contract.ts'

const objectsOf = async (of: Serving, options: SpecOptions = {}) => {
  const [file] = await renderSpec('rollout', of, options)
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  return objects as unknown as Tree[]
}
const kindOf = (objects: readonly Tree[], kind: string) =>
  objects.find((object) => String(object.kind) === kind)!
const judgeOf = (objects: readonly Tree[]) =>
  kindOf(objects, 'AnalysisTemplate').spec!.metrics![0]!.provider!.job!.spec!
const withJsonBody = servingOf(
  {
    ...found,
    evidence: {
      ...evidence,
      measured: { ...ownCommand, protocol: 'json', path: '/predict', body: '{"text": "{{text}}"}' },
    },
  },
  { demandRps: 900, headroom: 0.2 },
)

describe('tune spec --target rollout', () => {
  test('is valid against the closed schemas, with and without a GPU', async () => {
    for (const resources of [quarter, noGpu])
      expect(
        (await objectsOf(serving({}, resources))).map(({ kind, metadata }) => [
          kind,
          metadata!.name,
        ]),
      ).toEqual([
        ['ConfigMap', 'bert-files'],
        ['Rollout', 'bert'],
        ['Service', 'bert'],
        ['PodDisruptionBudget', 'bert'],
        ['Service', 'bert-stable'],
        ['Service', 'bert-canary'],
        ['AnalysisTemplate', 'bert-verify'],
      ])
  })

  test('the schemas refuse a field that Argo Rollouts does not have', async () => {
    const [file] = await renderSpec('rollout', serving())
    for (const [right, wrong] of [
      ['setWeight:', 'weight:'],
      ['templateName:', 'template:'],
      ['canaryService:', 'canary:'],
      ['job:', 'jobs:'],
      ['backoffLimit:', 'backoff:'],
    ] as const)
      expect(checkManifests(file!.text.replace(right, wrong)).problems, wrong).not.toEqual([])
  })

  test('holds the pods of the Deployment, and judges each step of the canary', async () => {
    const { spec, apiVersion } = kindOf(await objectsOf(serving()), 'Rollout')
    const [file] = await renderSpec('kubernetes', serving(), { autoscaler: 'none' })
    const deployment = kindOf(checkManifests(file!.text).objects as unknown as Tree[], 'Deployment')
    expect(apiVersion).toBe('argoproj.io/v1alpha1')
    const { strategy, progressDeadlineAbort, ...rest } = spec!
    expect(rest).toEqual(deployment.spec)
    expect(progressDeadlineAbort).toBe(true)
    const judged = (rate: string) => ({
      analysis: {
        templates: [{ templateName: 'bert-verify' }],
        args: [{ name: 'rate', value: rate }],
      },
    })
    // Six replicas of 191 req/s, of which a fifth is kept free: one new pod, then three.
    expect(strategy!.canary).toEqual({
      stableService: 'bert-stable',
      canaryService: 'bert-canary',
      maxSurge: 1,
      maxUnavailable: 0,
      steps: [{ setWeight: 20 }, judged('38rps'), { setWeight: 50 }, judged('114rps')],
    })
  })

  test('the Job asks the canary alone, and fails at once where the SLO is violated', async () => {
    const { backoffLimit, podFailurePolicy, template } = judgeOf(await objectsOf(serving()))
    const { containers, restartPolicy } = template!.spec!
    expect(containers![0]).toMatchObject({
      image: 'tune:0.1.0',
      args: [
        ...['verify', '--url', 'http://bert-canary', '--model', 'bert'],
        ...['--rate', '{{args.rate}}', '--slo', 'p99<50ms'],
      ],
    })
    expect([backoffLimit, restartPolicy]).toEqual([2, 'Never'])
    expect(podFailurePolicy!.rules).toEqual([
      {
        action: 'FailJob',
        onExitCodes: { containerName: 'tune', operator: 'NotIn', values: [0, 1] },
      },
    ])
    const named = judgeOf(await objectsOf(serving(), { tunerImage: 'registry.example/tune:7' }))
    expect(named.template!.spec!.containers![0]!.image).toBe('registry.example/tune:7')
  })

  test('placeholders of a request body stay out of the template, whose arguments they would be', async () => {
    const objects = await objectsOf(withJsonBody)
    const { args } = judgeOf(objects).template!.spec!.containers![0]!
    expect(args).toEqual([
      ...['verify', '--url', 'http://bert-canary', '--protocol', 'json', '--path', '/predict'],
      ...['--model', 'bert', '--rate', '{{args.rate}}', '--slo', 'p99<50ms'],
      ...['-f', '/etc/tune/service.yaml'],
    ])
    const template = JSON.stringify(kindOf(objects, 'AnalysisTemplate'))
    expect(template.match(/{{.*?}}/g)).toEqual(['{{args.rate}}'])
    const body = objects.find(({ metadata }) => String(metadata!.name) === 'bert-verify')!
    expect(parse(String(body.data!['service.yaml']))).toEqual({
      predictor: { body: '{"text": "{{text}}"}' },
    })
  })

  test('one replica has one new pod at every step; without headroom nothing is free to judge it', async () => {
    const one = kindOf(await objectsOf(serving({ demandRps: 10 })), 'Rollout')
    const rates = JSON.stringify(one.spec!.strategy).match(/\d+rps/g)
    expect(rates).toEqual(['38rps', '38rps'])
    await expect(renderSpec('rollout', serving({ headroom: 0 }))).rejects.toMatchObject({
      hint: 'set a headroom, such as --headroom 20%',
    })
    await expect(renderSpec('kubernetes', serving(), { tunerImage: 'tune:1' })).rejects.toThrow(
      '--tuner-image does not apply to plain Kubernetes',
    )
  })
})
