import time

from bank_kit import filled

from satchel.continuity import chains, finding, points
from satchel.continuity.drafting import *
from satchel.continuity.elements import Tip


def test_x():
    with filled() as bank:
        led = bank.ledger
        s = new_session("talk")
        r = Recorder(Tip(s.id, s.id))
        recs = [s]
        for i in range(3000):
            recs.append(r.message(Said(role="user", content=f"turn {i} " + "x" * 500)))
            if i % 100 == 99:
                recs.append(r.change(Changed(working_state={"i": i}, note=Note(content=f"n{i}"))))
        led.append(recs)
        with led.reading() as v:
            st = finding.find(v, "talk")
            t = time.process_time()
            got = list(chains.forward(v, st if False else v.get([r.tip.element])[r.tip.element]))
            print(len(got), time.process_time() - t)
            assert [g.record.id for g in got] == [x.id for x in recs[1:]]
            print(finding.sessions(v)[0])
            print(len(finding.state(v, got[250]).notes), finding.state(v, got[250]).working_state)
            p = points.point_at(v, st, "message:50")
            print(p.tip)
            t = time.process_time()
            p = points.point_at(v, st, recs[60].id)
            print(time.process_time() - t)
            f = Recorder(p.tip).fork(
                LogHead(size=p.log, root=v.head.root), source=st.record.id, name="branch"
            )
        led.append([f])
        with led.reading() as v:
            print(finding.sessions(v))
            fk = finding.find(v, "branch")
            print(len(list(chains.forward(v, fk))))
            r2 = Recorder(chains.tip_of(v, fk))
            m = r2.message(Said(role="user", content="hi"))
        led.append([m])
        with led.reading() as v:
            x = points.point_at(v, fk, None)
            print(len(list(chains.forward(v, x.element))), x.tip)
            print(list(finding.messages(v, x.element, last=2))[0])
