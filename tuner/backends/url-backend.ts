/** Backend of a running server, which is measured as it is. */
import type { UrlTemplate } from '../../trials/launchers/template.ts'
import { createUrlLauncher } from '../../trials/launchers/url/url-launcher.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { createLocalLoad } from './local-load.ts'
import { addAnswerChecks, createProtocol } from './predictor-protocol.ts'

export function createUrlBackend(experiment: Experiment, template: UrlTemplate): Backend {
  const { space, load } = experiment
  const launcher = createUrlLauncher({
    template,
    protocolFor: (url) => createProtocol(experiment, url).protocol,
    payload: load.payload,
  })
  return {
    launcher: addAnswerChecks(launcher, experiment, template),
    space,
    notices: [],
    ...createLocalLoad(experiment),
  }
}
