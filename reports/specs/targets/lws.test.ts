import { expect, test } from 'vitest'
import { renderSpec } from '../index.ts'
import { hubModel, languageServing, podOf, type Tree } from '../spec-samples.contract.ts'
import { checkManifests } from '../validate.contract.ts'

const objectsOver = async (gpus: number, gpusPerNode?: number) => {
  const [file] = await renderSpec('lws', languageServing('vllm', hubModel, gpus), { gpusPerNode })
  const { objects, problems } = checkManifests(file!.text)
  expect(problems).toEqual([])
  return objects as unknown as Tree[]
}
const ofKind = (objects: readonly Tree[], kind: string) =>
  objects.find((object) => String(object.kind) === kind)!

test('the Service selects leaders alone, and does not have the name of the set', async () => {
  const objects = await objectsOver(8, 2)
  const [set, service] = [ofKind(objects, 'LeaderWorkerSet'), ofKind(objects, 'Service')]
  const { leaderTemplate, workerTemplate, size } = set.spec!.leaderWorkerTemplate!
  expect(size).toBe(4)
  expect(leaderTemplate!.metadata!.labels).toMatchObject(service.spec!.selector!)
  expect(workerTemplate!.metadata!.labels).not.toMatchObject(service.spec!.selector!)
  expect(service.metadata!.name).not.toBe(set.metadata!.name)
})

test('the leader waits for the last node before its start counts', async () => {
  const [, , leader] = podOf.LeaderWorkerSet!(
    ofKind(await objectsOver(16), 'LeaderWorkerSet').spec!,
  )
  const [file] = await renderSpec('kubernetes', languageServing('vllm', hubModel, 8))
  const deployment = ofKind(checkManifests(file!.text).objects as unknown as Tree[], 'Deployment')
  const { failureThreshold, periodSeconds } = leader.startupProbe!
  expect(Number(failureThreshold) * Number(periodSeconds)).toBeGreaterThanOrEqual(
    Number(deployment.spec!.progressDeadlineSeconds),
  )
})

test.each([
  [8, undefined, /a node has 8: a LeaderWorkerSet spreads a replica over several nodes/],
  [12, undefined, /12 GPUs do not fill whole nodes of 8 GPUs/],
] as const)('%d GPUs of nodes of %s are refused', async (gpus, perNode, message) => {
  await expect(objectsOver(gpus, perNode)).rejects.toThrow(message)
})
