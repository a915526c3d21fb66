import { describe, expect, test } from 'vitest'
import { canaryObjects, type DeploymentObject, toApply, withFigures } from './canary-objects.ts'

const deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'bert', labels: { team: 'ml' } },
  spec: {
    replicas: 3,
    strategy: { rollingUpdate: { maxSurge: 1 } },
    selector: { matchLabels: { app: 'bert' } },
    template: {
      metadata: { labels: { app: 'bert', tier: 'web' } },
      spec: {
        containers: [
          { name: 'proxy', image: 'envoy:1' },
          {
            name: 'server',
            image: 'bert:7',
            env: [
              { name: 'A', value: '1' },
              { name: 'B', value: '1' },
            ],
            resources: { limits: { cpu: '1' } },
          },
        ],
        volumes: [
          { name: 'files', configMap: { name: 'bert-files' } },
          { name: 'other', configMap: { name: 'other' } },
        ],
      },
    },
  },
}
const configMap = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'bert-files' },
  data: { a: '1' },
}
const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'bert' } }

describe('what is applied', () => {
  test('of a spec the Deployment and what its pods mount; Services stay as they are', () => {
    expect(toApply([configMap, deployment, service])).toEqual({ deployment, others: [configMap] })
  })

  test('of a manifest that was patched the tuned values alone, under the names that lists are merged by', () => {
    const patched = structuredClone(deployment)
    patched.spec.replicas = 5
    const server = patched.spec.template.spec.containers[1]!
    server.env![1]!.value = '8'
    server.resources!.limits.cpu = '2'
    expect(toApply([patched, configMap, service], [deployment, configMap, service])).toEqual({
      deployment: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'bert' },
        spec: {
          replicas: 5,
          template: {
            spec: {
              containers: [
                {
                  name: 'server',
                  env: [{ name: 'B', value: '8' }],
                  resources: { limits: { cpu: '2' } },
                },
              ],
            },
          },
        },
      },
      others: [],
    })
  })

  test.each([
    [[service], /one Deployment, and the spec has none \(Service\)/],
    [
      [deployment, { ...deployment, metadata: { name: 'two' } }],
      /one Deployment, and the spec has 2/,
    ],
    [[deployment, { kind: 'ScaledObject' }], /does not change ScaledObject/],
  ])('refused: %#', (objects, message) => {
    expect(() => toApply(objects)).toThrow(message)
  })

  test('says which trial it is; replicas are set, or left to an autoscaler', () => {
    const figures = { experiment: 'e', trial: 4, replicas: undefined }
    const left = withFigures(deployment, figures)
    expect(left).toMatchObject({
      metadata: { name: 'bert', annotations: { 'tune/experiment': 'e', 'tune/trial': '4' } },
    })
    expect(left.spec).not.toHaveProperty('replicas')
    expect(withFigures(deployment, { ...figures, replicas: 7 }).spec).toMatchObject({ replicas: 7 })
  })
})

test('the canary has the labels that requests are sent by, one of its own, and its own copy of what changes with it', () => {
  const [files, canary] = canaryObjects(
    deployment as unknown as DeploymentObject,
    [configMap],
    { name: 'job', uid: 'u' },
    'canary-bert',
  )
  expect(files).toMatchObject({
    kind: 'ConfigMap',
    metadata: { name: 'bert-files-canary', ownerReferences: [{ uid: 'u' }] },
    data: { a: '1' },
  })
  expect(canary).toMatchObject({
    metadata: {
      name: 'bert-canary',
      labels: { 'tune/experiment': 'canary-bert', 'tune/canary': 'bert' },
      ownerReferences: [{ uid: 'u' }],
    },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: 'bert', 'tune/canary': 'bert' } },
      template: {
        metadata: { labels: { app: 'bert', tier: 'web', 'tune/canary': 'bert' } },
        spec: {
          volumes: [{ configMap: { name: 'bert-files-canary' } }, { configMap: { name: 'other' } }],
        },
      },
    },
  })
  expect(canary!.spec).not.toHaveProperty('strategy')
})
