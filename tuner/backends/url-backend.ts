/** A server that runs already, measured as it is. */
import type { UrlTemplate } from '../../trials/launchers/template.ts'
import { createUrlLauncher } from '../../trials/launchers/url/url-launcher.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { loadFromHere } from './load-from-here.ts'
import { answersChecked, protocolOf } from './predictor-protocol.ts'

export function urlBackend(experiment: Experiment, template: UrlTemplate): Backend {
  const { space, load } = experiment
  const launcher = createUrlLauncher({
    template,
    protocolFor: (url) => protocolOf(experiment, url).protocol,
    payload: load.payload,
  })
  return {
    launcher: answersChecked(launcher, experiment, template),
    space,
    notices: [],
    ...loadFromHere(experiment),
  }
}
