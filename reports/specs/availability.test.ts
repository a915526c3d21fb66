/** Spread, budgets and scraping on every target of a cluster. */
import { expect, test } from 'vitest'
import { renderSpec } from './index.ts'
import { podOf, serving, type Tree, whole } from './spec-samples.contract.ts'
import { checkManifests } from './validate.contract.ts'

test.each([
  ['kubernetes', 'triton', {}],
  ['kserve', 'triton', {}],
  ['kserve', 'command', { variant: 'keda' }],
  ['kserve', 'vllm', { variant: 'llm' }],
  ['seldon', 'tfserving', {}],
  ['kubedl', 'triton', {}],
  ['rayservice', 'ray', { importPath: 'app:bert' }],
] as const)(
  '%s with %s %o: the pods that are spread are budgeted; one replica is neither',
  async (target, server, options) => {
    const several = serving({ server }, whole)
    const objectsOf = async (of: typeof several) =>
      checkManifests((await renderSpec(target, of, options))[0]!.text).objects as unknown as Tree[]
    const objects = await objectsOf(several)
    const object = objects.find(({ kind }) => String(kind) in podOf)!
    const [, spec] = podOf[String(object.kind)]!(object.spec!)
    const spread = spec.topologySpreadConstraints!.map((one) => one.labelSelector!.matchLabels)
    const budget = objects.find(({ kind }) => String(kind) === 'PodDisruptionBudget')
    if (target === 'seldon')
      expect(JSON.stringify(object)).toContain('"pdbSpec":{"maxUnavailable":1}')
    else for (const labels of spread) expect(labels).toEqual(budget!.spec!.selector!.matchLabels)
    const one = await objectsOf({ ...several, replicas: 1, minReplicas: 1 })
    expect(JSON.stringify(one)).not.toMatch(/maxUnavailable|topologySpread/)
  },
)
