// What a registry may say that does not hold, or that no registry of ours says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { lifeLeft } from "../dist/charges.js";
import { Encoder } from "../dist/encoder.js";
import { fingerprint } from "../dist/fingerprint.js";
import { everyMechanism } from "../dist/mechanisms/index.js";
import { exact } from "../dist/probability.js";
import { Registry } from "../dist/registry.js";
import { ValueError } from "../dist/values.js";
import { Device, publicRegistry, registry } from "./devices.mjs";

const RAPPOR = {
  ...{ mechanism: "rappor", bits: 4, hashes: 1, cohorts: 1, seed: "00".repeat(16), f: 0.5 },
  ...{ p: 0.25, q: 0.75, scheme: "identity", categories: ["a", "b", "c", "d"], permanent: "keyed" },
};

test("RAPPOR has probabilities, and one answer or more", () => {
  const encoder = (changed) => new Encoder({ ...RAPPOR, ...changed }, everyMechanism);
  const [top, bottom] = encoder({ at_most: 2 }).ratio;
  assert.ok(top > bottom);
  for (const at_most of [0, false, null, -1, 1.5, "2"]) {
    assert.throws(() => encoder({ at_most, p: 0.01, q: 0.99 }), /at_most is a whole number above 0/);
  }
  for (const changed of [{ f: -0.1 }, { f: 0.9, p: 0.9, q: 1.02 }, { p: -0.02 }, { f: undefined }]) {
    assert.throws(() => encoder(changed), /f, p, q: 0 to 1/);
  }
});

test("a number that is missing or negative is a problem of its metric alone", () => {
  for (const value of [undefined, null, -1, Infinity, NaN, "2"]) {
    assert.throws(() => exact(value), /a number is missing or out of range/);
    for (const name of ["epsilon", "price"]) {
      const document = publicRegistry();
      document.metrics.city[name] = value;
      const { problems, metrics } = new Registry(document, everyMechanism);
      assert.deepEqual([Object.keys(problems), "theme" in metrics], [["city"], true]);
    }
  }
  assert.equal(exact(0), 0n);
});

test("a metric of a group that trusts a shuffler is never recorded", () => {
  const document = publicRegistry();
  document.metrics.city.presence = "relayed";
  const { problems } = new Registry(document, everyMechanism);
  assert.equal(problems.city, "its mode or relay is not known here");
});

test("bounds that are no numbers refuse values", () => {
  const mechanism = { mechanism: "one-bit-mean", epsilon: 1, outside: "clip" };
  for (const bounds of [[0], [0, "1e400"], [NaN, 1]]) {
    const encoder = new Encoder({ ...mechanism, bounds }, everyMechanism);
    assert.throws(() => encoder.check(0.5), ValueError);
  }
});

test("small numbers below 0 have the fingerprint that Python gives them", () => {
  const mechanism = { mechanism: "one-bit-mean", epsilon: 1, outside: "clip" };
  const prints = [[-1e-5, 1e-5], [-1.5e-7, 0.00012]].map((bounds) => fingerprint({ ...mechanism, bounds }));
  assert.deepEqual(prints, ["60054f90e56b91d8", "da778e351c7bffa9"]); // OneBitMean(...).fingerprint.hex()
});

test("jitter and the days of keepSent are whole numbers", () => {
  for (const value of [-1, 0.5, NaN, Infinity, "60", null]) {
    for (const name of ["jitter", "keepSent"]) {
      assert.throws(() => new Device({ [name]: value }), /whole numbers, 0 or more/);
    }
  }
  new Device({ jitter: undefined, keepSent: undefined });
});

/** A registry whose one group and one metric have these names. */
function renamed(metric, group = "places") {
  const { product, groups, metrics, ...rest } = publicRegistry();
  const [city, places] = [{ ...metrics.city, group }, groups.places];
  const one = (name, content) => Object.fromEntries([[name, content]]);
  return { ...rest, product: { name: product.name }, groups: one(group, places), metrics: one(metric, city) };
}

for (const name of ["constructor", "__proto__", "toString"]) {
  test(`a metric and a group may be called ${name}`, async () => {
    const device = new Device({ registry: renamed(name, name) });
    await device.client.grant();
    assert.deepEqual(await device.client.record(name, "Oslo"), { recorded: true });
    device.sleep(1);
    assert.equal((await device.client.upload()).acknowledged, 1);
    assert.deepEqual(Object.entries((await device.client.sent())[0].reports), [[name, 1]]);
    assert.deepEqual(Object.keys(device.document.layout), [name]);
    assert.deepEqual(Object.keys(device.document.terms.groups), [name]);
  });

  test(`${name} is no group and no metric unless a registry says so`, async () => {
    const device = new Device({ registry: renamed("city") });
    await device.client.grant();
    device.restart({ registry: renamed("city", name) });
    assert.deepEqual((await device.client.status()).unasked, [name]);
    assert.deepEqual(Object.values(await device.client.remaining()), [0]);
    const homeless = { ...renamed("city"), groups: {} };
    homeless.metrics.city.group = name;
    const { problems } = new Registry(homeless, everyMechanism);
    assert.equal(problems.city, "its group is missing");
  });

  test(`a hidden group ${name} begins with the consent after a withdrawal`, async () => {
    const document = renamed(name, name);
    const { smile } = registry().metrics;
    for (const metric of Object.values(document.metrics)) Object.assign(metric, smile, { group: name });
    const device = new Device({ registry: document });
    await device.client.grant();
    await Promise.all([device.client.withdraw(), device.client.grant()]);
    assert.equal((await device.client.upload()).acknowledged, 0);
    device.sleep(1);
    assert.equal((await device.client.upload()).acknowledged, 1);
  });

  test(`charges of a metric ${name} that is gone count for every group`, async () => {
    const device = new Device({ registry: renamed(name) });
    await device.client.grant();
    await device.client.record(name, "Oslo");
    device.sleep(1);
    await device.client.upload();
    device.restart({ registry: renamed("city", "other") });
    await device.client.grant();
    const after = new Registry(renamed("city", "other"), everyMechanism);
    const [{ price }] = device.charged;
    const { lifetime_epsilon } = after.groups.other;
    assert.equal(lifeLeft(device.document, after, "other"), exact(lifetime_epsilon - price));
  });
}

test("a number by category is a pair, and a category that is not listed is the other", () => {
  const document = publicRegistry();
  const histogram = { mechanism: "hierarchical-histogram", epsilon: 1, bounds: [0, 10], buckets: 4 };
  const rest = { magnitudes: [1e-6, 1e9], signed: false, branching: 4, outside: "clip" };
  const encoder = new Encoder({ ...histogram, ...rest, by: ["2.0", "other"] }, everyMechanism);
  const registry = new Registry(document, everyMechanism);
  const metric = { ...registry.metrics.city, other: "other", mechanism: encoder.parameters };
  assert.deepEqual(registry.cleaned(metric, ["3.0", "0.5"]), ["other", "0.5"]);
  assert.deepEqual(registry.cleaned(metric, ["2.0", 0.5]), ["2.0", 0.5]);
  encoder.check(["2.0", 0.5]);
  for (const value of [0.5, ["2.0"], ["3.0", 0.5], ["2.0", "x"], ["2.0", 1, 2]]) {
    assert.throws(() => encoder.check(value), ValueError);
  }
});
