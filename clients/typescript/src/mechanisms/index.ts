// Every mechanism of the specification, made by `make tables`. An app that imports few is smaller.

import type { Mechanisms } from "../encoder.js";
import { bitFlip } from "./bit-flip.js";
import { cms } from "./cms.js";
import { coin } from "./coin.js";
import { hadamard } from "./hadamard.js";
import { hcms } from "./hcms.js";
import { hierarchicalHistogram } from "./hierarchical-histogram.js";
import { joint } from "./joint.js";
import { localHashing } from "./local-hashing.js";
import { memoisedBitFlip, memoisedHashing, memoisedRr } from "./memoised.js";
import { moments } from "./moments.js";
import { oneBitMean, piecewise } from "./numbers.js";
import { pgr } from "./pgr.js";
import { prefix } from "./prefix.js";
import { privset } from "./privset.js";
import { rapporNgramPairs, rapporNgrams } from "./rappor-ngrams.js";
import { rappor } from "./rappor.js";
import { rr } from "./rr.js";
import { sfp, sfpFragments } from "./sfp.js";
import { subset } from "./subset.js";
import { unary } from "./unary.js";

export const everyMechanism: Mechanisms = [
  bitFlip, cms, coin, hadamard, hcms, hierarchicalHistogram, joint, localHashing, memoisedBitFlip,
  memoisedHashing, memoisedRr, moments, oneBitMean, pgr, piecewise, prefix, privset, rappor,
  rapporNgramPairs, rapporNgrams, rr, sfp, sfpFragments, subset, unary,
];

export {
  bitFlip, cms, coin, hadamard, hcms, hierarchicalHistogram, joint, localHashing, memoisedBitFlip,
  memoisedHashing, memoisedRr, moments, oneBitMean, pgr, piecewise, prefix, privset, rappor,
  rapporNgramPairs, rapporNgrams, rr, sfp, sfpFragments, subset, unary,
};
