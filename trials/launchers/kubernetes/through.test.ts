import { expect, test } from 'vitest'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { labelsOf } from './manifests.ts'
import {
  inMesh,
  type Through,
  tellsTrialsApart,
  trialRoute,
  trialService,
  wayOf,
} from './through.ts'

const at = { service: 'tune-e-3-abc', namespace: 'serving', port: 8000 }
const object = {
  name: at.service,
  labels: labelsOf('e', 'predictor', 3),
  owner: { name: 'o', uid: 'u' },
  port: 8000,
}

test('a Service is called by its name, and selects the pod of its trial alone', () => {
  expect(wayOf('service', at)).toEqual({
    name: 'the Service',
    url: 'http://tune-e-3-abc.serving.svc:8000',
    headers: {},
  })
  const service = trialService(object, 'http')
  expect(checkManifests(JSON.stringify(service)).problems).toEqual([])
  expect(service.spec).toMatchObject({
    selector: { 'tune/experiment': 'e', 'tune/trial': '3', 'tune/role': 'predictor' },
    ports: [{ name: 'http', port: 8000, appProtocol: 'http' }],
  })
  expect(trialRoute('service', object, 'serving')).toBeUndefined()
})

test('a gateway finds the Service by what stands in its address or a header', () => {
  const through: Through = {
    gateway: 'http://gw/${namespace}',
    headers: { host: '${service}.example' },
  }
  expect(wayOf(through, at)).toMatchObject({
    url: 'http://gw/serving',
    headers: { host: 'tune-e-3-abc.example' },
  })
  expect(trialRoute(through, object, 'serving')).toBeUndefined()
})

test('a Gateway of the Gateway API gets a route of each trial, told apart by a header', () => {
  const through: Through = {
    gateway: 'http://gw',
    headers: { Host: 'bert.example:8080' },
    parent: { name: 'public', namespace: 'gateways' },
  }
  expect(wayOf(through, at).headers).toEqual({
    Host: 'bert.example:8080',
    'x-tune-trial': 'tune-e-3-abc',
  })
  expect(trialRoute(through, object, 'serving')).toMatchObject({
    kind: 'HTTPRoute',
    spec: {
      parentRefs: [{ name: 'public', namespace: 'gateways' }],
      hostnames: ['bert.example'],
      rules: [
        {
          matches: [{ headers: [{ name: 'x-tune-trial', value: 'tune-e-3-abc' }] }],
          backendRefs: [{ name: 'tune-e-3-abc', port: 8000 }],
        },
      ],
    },
  })
})

test.each([
  [{ gateway: 'http://gw' }, false],
  [{ gateway: 'http://gw', headers: { host: 'bert.example' } }, false],
  [{ gateway: 'http://gw/${service}' }, true],
  [{ gateway: 'http://gw', headers: { host: '${service}' } }, true],
  [{ gateway: 'http://gw', parent: { name: 'g' } }, true],
])('%j tells trials apart: %s', (through, apart) => {
  expect(tellsTrialsApart(through)).toBe(apart)
})

test('a mesh’s sidecar is asked for beside what the user says, which stands', () => {
  expect(inMesh(undefined, { spec: {} })).toEqual({ spec: {} })
  expect(inMesh('linkerd', undefined)).toEqual({
    metadata: {
      annotations: { 'linkerd.io/inject': 'enabled', 'config.linkerd.io/proxy-await': 'enabled' },
    },
  })
  const own = {
    metadata: { labels: { team: 'ml' }, annotations: { 'proxy.istio.io/config': 'mine' } },
    spec: { a: 1 },
  }
  expect(inMesh('istio', own)).toEqual({
    metadata: {
      labels: { team: 'ml', 'sidecar.istio.io/inject': 'true' },
      annotations: { 'proxy.istio.io/config': 'mine' },
    },
    spec: { a: 1 },
  })
})
