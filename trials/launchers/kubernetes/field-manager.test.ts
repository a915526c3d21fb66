import { expect, test } from 'vitest'
import { type Api, ApiError } from './api.ts'
import { applyObject, conflictingManagers, FieldConflict } from './field-manager.ts'

const several = `Apply failed with 2 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:
- .spec.replicas
- .spec.template.spec.containers[name="server"].resources.limits.cpu
conflict with "kube-controller-manager" with subresource "scale" using apps/v1: .spec.replicas`

test('managers are read from what the server says', () => {
  expect(
    conflictingManagers(
      'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas',
    ),
  ).toEqual(['kubectl'])
  expect(conflictingManagers(several)).toEqual([
    'kubectl-client-side-apply',
    'kube-controller-manager',
  ])
  expect(
    conflictingManagers('Operation cannot be fulfilled: the object has been modified'),
  ).toEqual([])
})

test('fields are taken from nobody who was not named', async () => {
  const sent: unknown[] = []
  const conflict = new ApiError(409, 'Conflict', several)
  const request = async (
    _method: string,
    path: string,
    { query }: { query: { force: boolean } },
  ) => {
    sent.push([path, query.force])
    if (!query.force) throw conflict
    return { ok: true }
  }
  const api = { namespace: 'n', request } as unknown as Api
  const object = { kind: 'Deployment', metadata: { name: 'bert' } }
  await expect(applyObject(api, object, {})).rejects.toMatchObject({
    managers: ['kubectl-client-side-apply', 'kube-controller-manager'],
  })
  await expect(
    applyObject(api, object, { takeOver: ['kubectl-client-side-apply'] }),
  ).rejects.toThrow(FieldConflict)
  expect(sent.every((one) => (one as unknown[])[1] === false)).toBe(true)
  const takeOver = ['kubectl-client-side-apply', 'kube-controller-manager']
  expect(await applyObject(api, object, { takeOver })).toEqual({ ok: true })
  expect(sent.at(-1)).toEqual(['/apis/apps/v1/namespaces/n/deployments/bert', true])
})
