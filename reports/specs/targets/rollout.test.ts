import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { createServing } from '../create-serving.ts'
import { renderSpec } from '../index.ts'
import type { Serving } from '../serving.ts'
import { evidence, found, ownCommand, serving, type Tree } from '../spec-samples.contract.ts'
import type { SpecOptions } from '../target.ts'
import { checkManifests } from '../validate.contract.ts'

const objectsOf = async (of: Serving, options: SpecOptions = {}) => {
  const [file] = await renderSpec('rollout', of, options)
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  return objects as unknown as Tree[]
}
const kindOf = (objects: readonly Tree[], kind: string) =>
  objects.find((object) => String(object.kind) === kind)!
const withJsonBody = createServing(
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

  test('holds the pods of the Deployment', async () => {
    const { spec, apiVersion } = kindOf(await objectsOf(serving()), 'Rollout')
    const [file] = await renderSpec('kubernetes', serving(), { autoscaler: 'none' })
    const deployment = kindOf(checkManifests(file!.text).objects as unknown as Tree[], 'Deployment')
    expect(apiVersion).toBe('argoproj.io/v1alpha1')
    const { strategy: _, progressDeadlineAbort: __, ...rest } = spec!
    expect(rest).toEqual(deployment.spec)
  })

  test('placeholders of a request body stay out of the template, whose arguments they would be', async () => {
    const objects = await objectsOf(withJsonBody)
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
