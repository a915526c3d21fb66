import { expect, test } from 'vitest'
import { type Api, ApiError } from '../../../trials/launchers/kubernetes/api.ts'
import { undo, undoing } from './undo.ts'

const before = { metadata: { name: 'bert', annotations: { a: 'x' } }, spec: { replicas: 2, template: { image: 1 } } }
const after = { metadata: { name: 'bert', annotations: { a: 'x', 'tune/trial': '4' } }, spec: { replicas: 2, template: { image: 2 } } }
const paths = [
  ['metadata', 'annotations', 'tune/trial'],
  ['spec', 'replicas'],
  ['spec', 'template'],
]
const changes = undoing('Deployment', paths, before, after)

/** A server that has this one object, and what it was sent. */
function serverWith(live: object | undefined, refusal?: ApiError) {
  const sent: unknown[] = []
  const request = async (method: string, _path: string, { body }: { body?: unknown }) => {
    if (method === 'GET') {
      if (live === undefined) throw new ApiError(404, 'NotFound', 'not found')
      return live
    }
    sent.push(body)
    if (refusal) throw refusal
    return {}
  }
  return { api: { namespace: 'n', request } as unknown as Api, sent }
}
const never = new AbortController().signal

test('only what differs, each with a test that nobody has changed it since', async () => {
  const { api, sent } = serverWith(after)
  expect(await undo(api, changes, never)).toEqual([])
  expect(sent).toEqual([
    [
      { op: 'test', path: '/metadata/annotations/tune~1trial', value: '4' },
      { op: 'remove', path: '/metadata/annotations/tune~1trial' },
    ],
    [
      { op: 'test', path: '/spec/template', value: { image: 2 } },
      { op: 'add', path: '/spec/template', value: { image: 1 } },
    ],
  ])
})

test('what was never changed, or is back already, is left; what somebody else changed is named', async () => {
  const same = serverWith(before)
  expect(await undo(same.api, changes, never)).toEqual([])
  expect(same.sent).toEqual([])
  const other = serverWith({ ...after, spec: { replicas: 2, template: { image: 3 } } })
  expect(await undo(other.api, changes, never)).toEqual([
    'Deployment bert: spec.template was changed by somebody else since, and is left so',
  ])
  const meanwhile = serverWith(after, new ApiError(422, 'Invalid', 'test failed'))
  expect(await undo(meanwhile.api, changes, never)).toHaveLength(2)
  await expect(undo(serverWith(after, new ApiError(403, 'Forbidden', 'no')).api, changes, never)).rejects.toThrow('no')
  expect(await undo(serverWith(undefined).api, changes.slice(0, 1), never)).toEqual(['Deployment bert is not there any more'])
})

test('an object that the change makes stays', () => {
  expect(undoing('ConfigMap', [['data']], undefined, after)).toEqual([])
})
