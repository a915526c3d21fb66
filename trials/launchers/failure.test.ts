import { expect, test } from 'vitest'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { InfeasibleError, LaunchError } from '../types.ts'
import { noGoodAnswer } from './failure.ts'

const log = { path: '/log', tail: () => '' }

test('a configuration whose answers differ cannot serve; one without a good answer may be mended', () => {
  const differs = new ProtocolError('oip-v2', 'http://h answers, but ...', undefined, 'answers-differ')
  expect(noGoodAnswer(differs, log)).toEqual(new InfeasibleError('answers-differ', 'http://h answers, but ...', '/log'))
  expect(noGoodAnswer(new ProtocolError('oip-v2', 'no'), log)).toBeInstanceOf(LaunchError)
})
