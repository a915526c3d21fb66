import { expect, test } from 'vitest'
import { checkManifests } from '../../../../reports/specs/validate.contract.ts'
import { createLabels } from './manifests.ts'
import { createTrialService, formatServiceUrl } from './trial-service.ts'

test('a Service is called by its name, and selects the pod of its trial alone', () => {
  const name = 'tune-e-3-abc'
  expect(formatServiceUrl(name, 'serving', 8000)).toBe('http://tune-e-3-abc.serving.svc:8000')
  const labels = createLabels('e', 'predictor', 3)
  const service = createTrialService(
    { name, labels, owner: { name: 'o', uid: 'u' }, port: 8000 },
    'http',
  )
  const stage = createTrialService(
    {
      name,
      labels: createLabels('e', 'predictor', 3, 'embed'),
      owner: { name: 'o', uid: 'u' },
      port: 1,
    },
    'http',
  )
  expect(stage.spec).toMatchObject({ selector: { 'tune/stage': 'embed' } })
  expect(checkManifests(JSON.stringify(service)).problems).toEqual([])
  expect(service.spec).toMatchObject({
    selector: { 'tune/experiment': 'e', 'tune/trial': '3', 'tune/role': 'predictor' },
    ports: [{ name: 'http', port: 8000, appProtocol: 'http' }],
  })
})
