import { expect, test } from 'vitest'
import { ProtocolError } from '../../profiler/profiler-errors.ts'
import { InfeasibleError, LaunchError } from '../types.ts'
import { launchFailure, noGoodAnswer } from './failure.ts'
import type { PredictorLog } from './local/log.ts'

const log = { path: '/log', tail: () => '' }

test('a configuration whose answers differ cannot serve; one without a good answer may be mended', () => {
  const differs = new ProtocolError('oip-v2', 'http://h answers, but ...', undefined, 'answers-differ')
  expect(noGoodAnswer(differs, log)).toEqual(new InfeasibleError('answers-differ', 'http://h answers, but ...', '/log'))
  expect(noGoodAnswer(new ProtocolError('oip-v2', 'no'), log)).toBeInstanceOf(LaunchError)
})

test('what a known server lacks is answered with what installs it', () => {
  const missing = { kind: 'missing', evidence: "No module named 'sglang'" } as const
  const hintOf = (install?: string) => launchFailure(missing, 'exit code 1', log as PredictorLog, 'experiment', install)
  expect(hintOf('pip install sglang')).toMatchObject({ hint: 'pip install sglang', final: 'experiment' })
  expect(hintOf()).toMatchObject({ hint: expect.stringContaining('install what the predictor needs') })
})
