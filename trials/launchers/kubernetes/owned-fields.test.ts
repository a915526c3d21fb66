import { expect, test } from 'vitest'
import { laidOnto, ownedFields } from './owned-fields.ts'

const fieldsV1 = {
  'f:metadata': {
    'f:annotations': { 'f:tune/trial': {} },
    'f:finalizers': { '.': {}, 'v:"a/b"': {} },
  },
  'f:spec': {
    'f:replicas': {},
    'f:gone': {},
    'f:template': {
      'f:spec': {
        'f:containers': {
          'k:{"name":"server"}': {
            '.': {},
            'f:env': { 'k:{"name":"A"}': { '.': {}, 'f:name': {}, 'f:value': {} } },
            'f:resources': { 'f:limits': { 'f:memory': {} } },
          },
          'k:{"name":"left"}': { '.': {} },
        },
        'f:tolerations': {},
      },
    },
  },
}
const containers = [
  { name: 'proxy', image: 'envoy:1' },
  {
    name: 'server',
    image: 'bert:7',
    env: [
      { name: 'B', value: '1' },
      { name: 'A', value: '2' },
    ],
    resources: { limits: { cpu: '1', memory: '2Gi' } },
  },
]
const object = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: {
    name: 'bert',
    annotations: { 'tune/trial': '4', mine: 'x' },
    finalizers: ['a/b', 'c/d'],
    managedFields: [
      { manager: 'tune', operation: 'Update', fieldsV1: { 'f:spec': {} } },
      { manager: 'tune', operation: 'Apply', fieldsV1 },
    ],
  },
  spec: {
    replicas: 3,
    template: { spec: { containers, tolerations: [{ key: 'gpu' }], dnsPolicy: 'ClusterFirst' } },
  },
}

test('what a manager applied, with the values of now; what is gone is left out', () => {
  const owned = ownedFields(object, 'tune')
  expect(owned).toEqual({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'bert', annotations: { 'tune/trial': '4' }, finalizers: ['a/b'] },
    spec: {
      replicas: 3,
      template: {
        spec: {
          containers: [
            {
              name: 'server',
              env: [{ name: 'A', value: '2' }],
              resources: { limits: { memory: '2Gi' } },
            },
          ],
          tolerations: [{ key: 'gpu' }],
        },
      },
    },
  })
  expect(ownedFields(object, 'kubectl')).toBeUndefined()
})

test('one onto the other: lists that have names by these, other lists and values replaced', () => {
  const change = {
    spec: {
      template: {
        spec: {
          containers: [
            { name: 'server', env: [{ name: 'B', value: '8' }], args: ['--x'] },
            { name: 'new' },
          ],
          tolerations: [],
        },
      },
    },
  }
  expect(laidOnto(ownedFields(object, 'tune'), change)).toMatchObject({
    metadata: { name: 'bert' },
    spec: {
      replicas: 3,
      template: {
        spec: {
          containers: [
            {
              name: 'server',
              env: [
                { name: 'A', value: '2' },
                { name: 'B', value: '8' },
              ],
              args: ['--x'],
              resources: { limits: { memory: '2Gi' } },
            },
            { name: 'new' },
          ],
          tolerations: [],
        },
      },
    },
  })
})
